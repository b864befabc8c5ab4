from tests.harness.in_memory import tmp_path_factory as tmp_path_factory
