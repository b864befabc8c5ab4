from typing import Any

import pytest

from flintmq.lake.export.choices import ExportChoices, complete


def test_what_is_given_stays_and_the_rest_gets_its_default() -> None:
    found = complete({"topics": ["A"], "explode": True})
    assert found.keys() == ExportChoices.__annotations__.keys()
    assert (found["topics"], found["explode"], found["decompress"]) == (["A"], True, False)
    assert (found["to"], found["body"], found["partition_by"]) == ("parquet", "bytes", ("topic_name", "date"))


def test_an_unknown_keyword_is_named() -> None:
    wrong: Any = {"topic": ["A"], "tpoics": ["A"]}
    with pytest.raises(TypeError, match="^an export has no keyword 'topic'$"):
        complete(wrong)
