"""Every test with the fixture `device` runs twice: on the CPU, and on a GPU if there is one."""

import pytest


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)
