from flintmq.arrow.releases import is_older


def test_releases():
    assert [is_older(text, (1, 10)) for text in ("1.9.3", "1.10.0", "v1.4.4", "0.20.31", "1.10rc1", "2.0.0-beta.1")] == [
        True, False, True, True, False, False
    ]  # fmt: skip
    assert not is_older("main", (1, 10)), "what is no number is not refused"
