"""Every test starts from the same seed, with uninitialised memory full of NaN so that reading it shows."""

import pytest
import torch
from hypothesis import settings

settings.register_profile("qkv", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("qkv")
collect_ignore_glob = ["fixtures/2*"]


@pytest.fixture(autouse=True)
def repeatable():
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True, warn_only=True)  # which also fills torch.empty with NaN
    yield
    torch.use_deterministic_algorithms(False)
