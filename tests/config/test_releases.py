from flintmq.config.releases import is_older


def test_releases():
    older = ("1.9.3", "v1.4.4", "0.20.31")
    others = ("1.10.0", "1.10rc1", "2.0.0-beta.1", "main")  # what is no number is not refused
    assert all(is_older(text, (1, 10)) for text in older) and not any(is_older(text, (1, 10)) for text in others)
