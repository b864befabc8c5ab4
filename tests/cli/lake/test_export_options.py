"""The words of the two exports: one declaration, and the keywords that they mean."""

from flintmq.cli.declare import parameters
from flintmq.cli.lake.export_options import ExportWords
from flintmq.cli.parser import load
from flintmq.lake.export.choices import ExportChoices, complete, option_of


def test_words_that_are_not_given_mean_the_defaults_of_the_keywords() -> None:
    usual = {**complete({})}
    del usual["access"]  # has no option
    assert ExportWords(["store"], "out").choices() == usual


def test_words_become_keywords() -> None:
    words = ExportWords(
        ["store"], "out", topics=["A", "B"], skip_damage=True, target_file_size="1MiB", partition_by="date", body="text"
    )
    told = {"topics": ["A", "B"], "fail_on_data_loss": False, "target_file_size": 1 << 20, "body": "text"}
    usual = ExportWords(["store"], "out").choices()
    assert words.choices() == {**usual, **told, "partition_by": ("date",)}


def test_a_keyword_is_named_by_its_option() -> None:
    """Errors name it so."""
    shown = {name for one in parameters(load("export")) for name in one.declared.names}
    unnamed = {keyword for keyword in ExportChoices.__annotations__ if option_of(keyword) not in shown}
    assert unnamed == {"access", "fail_on_data_loss"}  # the latter is --skip-damage, and no table keeps it


def test_both_exports_take_the_same_words_in_one_order() -> None:
    here, on_spark = ([one.declared.name for one in parameters(load(name))] for name in ("export", "spark export"))
    assert [name.replace("--master", "--threads") for name in on_spark] == here
