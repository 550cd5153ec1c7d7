from pathlib import Path

import pytest

CONFTEST = Path(__file__).with_name("conftest.py")
MARKED = """
import pytest

@pytest.mark.needs_browser
def test_marked():
    pass
"""


@pytest.fixture
def inner(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project with our conftest and one test that needs a browser, on an empty PATH."""
    monkeypatch.setenv("PATH", "")
    pytester.makeconftest(CONFTEST.read_text(encoding="utf-8").replace("pytest_plugins", "_"))
    pytester.makeini("[pytest]\nmarkers =\n    needs_browser: needs chromium")
    pytester.makepyfile(MARKED)
    return pytester


def test_a_missing_thing_skips_with_the_remedy(
    inner: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAM_LEIP_REQUIRE", "")
    result = inner.runpytest_inprocess("-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*browser is missing: put chromium on the PATH*"])


def test_a_required_missing_thing_fails(
    inner: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAM_LEIP_REQUIRE", " kafka, browser")
    result = inner.runpytest_inprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*browser is missing*STREAM_LEIP_REQUIRE names browser*"])


def test_a_present_thing_runs(
    inner: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    chromium = tmp_path / "bin" / "chromium"
    chromium.parent.mkdir()
    chromium.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(chromium.parent))
    monkeypatch.setenv("STREAM_LEIP_REQUIRE", "browser")
    inner.runpytest_inprocess().assert_outcomes(passed=1)


def test_an_unknown_word_is_an_error(
    inner: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAM_LEIP_REQUIRE", "browser,kafak")
    result = inner.runpytest_inprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*unknown words: kafak; it takes kafka, browser, spark*"])
