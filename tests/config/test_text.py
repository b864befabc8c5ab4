import pytest

from flintmq.config.text import parse_delay_levels, read_broker_conf, short, split_setting
from flintmq.errors import ConfigError, StoreAccessError


def test_broker_conf_as_javas_properties_files(tmp_path):
    conf = tmp_path / "broker.conf"
    conf.write_bytes(
        b"\xef\xbb\xbf# a comment\r\n! another\n\n  brokerName = broker-a \n"
        b"storePathRootDir:/data/store\nmessageDelayLevel=1s \\\n  5s\nempty=\nlast=a=b:c"
    )
    assert read_broker_conf(conf) == {
        "brokerName": "broker-a",
        "storePathRootDir": "/data/store",
        "messageDelayLevel": "1s   5s",
        "empty": "",
        "last": "a=b:c",
    }


def test_broker_conf_that_cannot_be_read(tmp_path):
    with pytest.raises(StoreAccessError, match=r"broker\.conf: cannot be read \(No such file"):
        read_broker_conf(tmp_path / "broker.conf")
    with pytest.raises(StoreAccessError, match="Is a directory"):
        read_broker_conf(tmp_path)
    (tmp_path / "latin").write_bytes(b"name=\xe9")
    with pytest.raises(ConfigError, match="latin, position 5: not UTF-8"):
        read_broker_conf(tmp_path / "latin")
    (tmp_path / "big").write_bytes(b"#" * (1 << 20) + b"x")
    with pytest.raises(ConfigError, match="larger than 1 MiB"):
        read_broker_conf(tmp_path / "big")


def test_delay_levels():
    assert parse_delay_levels("1s 5s 2m 3h 1d") == (1_000, 5_000, 120_000, 10_800_000, 86_400_000)


@pytest.mark.parametrize("text", ["", "5", "s", "1s  5s", "1x", "-1s", "9" * 18 + "d", "9" * 30 + "s"])
def test_delay_levels_that_are_none(text):
    with pytest.raises(ConfigError, match="messageDelayLevel"):
        parse_delay_levels(text)


def test_split_setting():
    assert split_setting("a=b=c") == ("a", "b=c")
    assert split_setting(" a = ") == ("a", "")
    for word in ("a", "=b", ""):
        with pytest.raises(ConfigError, match="is not KEY=VALUE"):
            split_setting(word)


def test_short_is_short_and_harmless():
    assert short("a") == "'a'"
    assert short("\x1b[31m\u202e\ud800") == "'\\x1b[31m\\u202e\\ud800'"
    assert short("主题") == "'主题'"
    assert short("x" * 118) == "'" + "x" * 118 + "'"
    assert short("é" * 1000) == "'" + "é" * 58 + "..."
