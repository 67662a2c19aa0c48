"""Fixtures that run the command line as a process."""

import pytest

from scenarios.postroom_process import environment


@pytest.fixture
def postroom(launcher, tmp_path):
    """Run one command to its end, in its own directory and home."""

    def run(*arguments, **settings):
        settings = {"POSTROOM_HOME": str(tmp_path / "home")} | settings
        return launcher.run(arguments, tmp_path, environment(**settings), seconds=60)

    return run


@pytest.fixture
def complaint(postroom):
    """Run a command that must fail with this exit code and one line of explanation."""

    def run(code, *arguments, **settings):
        done = postroom(*arguments, **settings)
        assert (done.returncode, done.stdout) == (code, ""), done.stderr
        (line,) = done.stderr.splitlines()
        assert line.startswith("error: ")
        return line.removeprefix("error: ")

    return run


@pytest.fixture
def environment_of():
    return environment
