"""What is published: the version, the metadata, and the wheel in an empty environment.

Not part of `make test`: run by `make dist`, which leaves the wheel and the sdist in dist/.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
GIT = ("git", "-c", "user.name=nobody", "-c", "user.email=nobody@example.com")


def run(*words, cwd=ROOT, code=0, **env):
    """Run a command, and return its output, or its error if it should fail; otherwise the test shows both."""
    given = {"cwd": cwd, "env": os.environ | env, "capture_output": True, "text": True}
    done = subprocess.run([str(word) for word in words], **given, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return (done.stderr if code else done.stdout).strip()


def version_of(tree):
    return run(sys.executable, "-m", "hatchling", "version", cwd=tree)


def empty_environment(where):
    venv.create(where, with_pip=True)
    return where / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


@pytest.fixture
def tree(tmp_path):
    home = tmp_path / "tree"
    shutil.copytree(ROOT / "src", home / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, home)
    for words in (["init"], ["add", "."], ["commit", "--quiet", "--message", "all"]):
        run(*GIT, *words, cwd=home)
    return home


def test_the_version_comes_from_the_tags(tree):
    """A clone without them has one below the first; after one it is on its way to the next."""
    assert version_of(tree).startswith("0.1.")
    assert ".dev" in version_of(tree)
    run("git", "tag", "v1.2.3", cwd=tree)
    assert version_of(tree) == "1.2.3"
    run(*GIT, "commit", "--quiet", "--allow-empty", "--message", "more", cwd=tree)
    assert version_of(tree).startswith("1.2.4.dev1+g")


def test_a_tree_and_an_editable_install_need_no_git(tree, tmp_path):
    shutil.rmtree(tree / ".git")
    assert version_of(tree) == "0.1.0.dev0"
    python = empty_environment(tmp_path / "env")
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--editable", tree)
    code = "import importlib.metadata as m; print(m.version('steepen'))"
    assert run(python, "-c", code, cwd=tmp_path) == "0.1.0.dev0"


@pytest.fixture(scope="module")
def built():
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST)
    (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    return wheel, sdist


def test_the_wheel_holds_the_library_and_the_sdist_the_tests_too(built):
    wheel, sdist = built
    assert "PASSED" in run(sys.executable, "-m", "twine", "check", "--strict", *built)
    assert wheel.name.split("-")[1] == sdist.name.removesuffix(".tar.gz").split("-")[1] == version_of(ROOT)
    names = zipfile.ZipFile(wheel).namelist()
    files = [path for path in (ROOT / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    source = {path.relative_to(ROOT / "src").as_posix() for path in files}
    assert {name for name in names if ".dist-info/" not in name} == source
    assert any(name.endswith("licenses/LICENSE") for name in names)
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = "Makefile constraints.txt conftest.py docs/conf.py .github/workflows/tests.yml"
    assert {*needed.split(), *(f"src/{name}" for name in source)} <= names
    assert sdist.stat().st_size < 2_000_000


SMOKE = """
import sys
import steepen as st

assert not st.__file__.startswith({root!r}), st.__file__
assert not hasattr(st, "paper")
res = st.minimize(st.functions["rosenbrock"], [-1.2, 1.0])
assert res.success, res
assert st.minimize(lambda x: x @ x, [1.0, 2.0], method="cgd-fd", lam=0.1).success
assert not {{"matplotlib", "torch", "jax"}} & set(sys.modules)
try:
    import steepen.torch
except ImportError as error:
    assert "steepen[torch]" in str(error), error
else:
    raise AssertionError("there is a torch in an empty environment")
print(st.__version__)
"""


def test_the_wheel_works_in_an_empty_environment(built, tmp_path):
    wheel, python = built[0], empty_environment(tmp_path / "env")
    away = {"cwd": tmp_path, "PYTHONPATH": ""}
    run(python, "-m", "pip", "install", "--quiet", wheel)
    version = run(python, "-c", SMOKE.format(root=str(ROOT)), **away)
    assert version == wheel.name.split("-")[1]
    run(python, "-m", "pip", "install", "--quiet", f"{wheel}[paper]")
    command = python.with_name("steepen.exe" if os.name == "nt" else "steepen")
    assert run(command, "--version", **away) == f"steepen {version}"
    assert " reproduce " in run(command, "--help", **away)
    assert run(command, "explore", "booth", **away) == "The page: explore.html"
    said = run(command, "reproduce", "--only", "table1,tuned", "--out", "again", **away)
    assert "DIFFERS" not in said
    assert (tmp_path / "again" / "report.html").is_file()


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("vendor.github-workflows", ".github/workflows/*.yml"),
        ("vendor.dependabot", ".github/dependabot.yml"),
        ("vendor.github-issue-forms", ".github/ISSUE_TEMPLATE/[!c]*.yml"),
        ("vendor.github-issue-config", ".github/ISSUE_TEMPLATE/config.yml"),
        ("vendor.citation-file-format", "CITATION.cff"),
    ],
)
def test_what_github_reads_has_the_form_that_it_reads(schema, files):
    found = sorted(ROOT.glob(files))
    assert found
    run(sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *found)
