import pytest

from flintmq.hooks import HOOKS, load


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_names_what_its_module_has(name: str):
    module, _, function = HOOKS[name].partition(":")
    found = load(name)
    assert found and getattr(found, "__module__", module) == module, f"{function} is not at home in {module}"
