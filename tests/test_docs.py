"""What stands beside the code: links that lead somewhere, snippets that run, sound workflows."""

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import requires
from operator import attrgetter
from pathlib import Path
from urllib.parse import unquote

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import steepen as st
from steepen import Status
from steepen.cli import main
from steepen.paper import ITEMS
from steepen.paper.experiments import EXPERIMENTS

from .public import ROOT, blocks, cells

yaml = pytest.importorskip("yaml")

FOLDERS = (".", "docs", "docs/api", "examples", "benchmarks", "benchmarks/evidence/rl")
PAGES = sorted(path for folder in FOLDERS for path in (ROOT / folder).glob("*.md"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def prose(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(text):
    titles = re.findall(r"^#+ (.*)$", prose(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken(page, text):
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", prose(text))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / unquote(path) if path else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            yield link


def test_links_between_the_pages_lead_somewhere_and_a_broken_one_is_found():
    assert len(PAGES) > 20
    assert [link for page in PAGES for link in broken(page, page.read_text(encoding="utf-8"))] == []
    text = "[a](missing.md) [b](README.md#install) [c](README.md#no-such) `[d](missing.md)` [e](https://f.g)"
    assert list(broken(ROOT / "planted.md", text)) == ["missing.md", "README.md#no-such"]


README = (ROOT / "README.md").read_text("utf-8")
SNIPPETS = blocks("README.md")


def test_the_files_that_contributing_names_are_there():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    named = re.findall(r"\b(?:src|tests|benchmarks|docs|conda)/[\w./-]*\w", text)
    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_commands_on_the_page_on_reproducing_are_there():
    text = (ROOT / "docs/reproduce.md").read_text("utf-8")
    (only,) = re.findall(r"--only (\S+)", text)
    assert set(only.split(",")) <= set(ITEMS)
    assert set(re.findall(r"'\.\[(.*?)\]'", text + README)) >= {"paper"}


LATER = re.compile(r"^(import|from) (torch|jax|steepen\.torch)\b", re.MULTILINE)
"""What tests/torch and tests/jax run."""


@pytest.mark.parametrize("page", ["docs/cgd.md", "docs/reproduce.md"])
def test_the_blocks_of_a_page_run_in_turn_and_print_what_it_shows(page, capsys):
    names, found = {}, [cell for cell in cells(page) if not LATER.search(cell[0])]
    assert found
    for number, (code, shown) in enumerate(found, 1):
        exec(compile(code, f"{page}, block {number}", "exec"), names)
        assert capsys.readouterr().out == shown, code


RUN_BY = {
    "README.md": ("tests/test_docs.py", "tests/torch/test_call.py", "tests/jax/test_call.py"),
    "docs/cgd.md": ("tests/test_docs.py", "tests/torch/test_call.py"),
    "docs/reproduce.md": ("tests/test_docs.py",),
    "docs/from-the-paper.md": ("tests/paper/test_from_the_paper.py",),
    "docs/integrations.md": ("tests/test_recipes.py", "tests/integrations/test_gest_hosts.py"),
    "docs/training.md": ("tests/torch/test_call.py",),
    "docs/jax.md": ("tests/jax/test_call.py",),
    "docs/optax.md": ("tests/optax/test_pages.py",),
}
"""The tests that run a page's blocks of Python without prompts."""


def test_every_block_of_code_is_run_by_a_test_or_as_the_site_is_built():
    texts = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in PAGES}
    assert {page for page in texts if any(">>>" not in code for code in blocks(page))} == set(RUN_BY)
    named = {
        (page, test): page in (ROOT / test).read_text("utf-8") for page in RUN_BY for test in RUN_BY[page]
    }
    assert [pair for pair, found in named.items() if not found] == []
    notebooks = [page for page, text in texts.items() if "\n```{code-cell}" in text]
    assert notebooks
    assert [page for page in notebooks if "file_format: mystnb" not in texts[page]] == []


def test_every_example_is_run_by_a_test():
    tests = sorted({*(ROOT / "tests").rglob("test_*.py")} - {Path(__file__)})
    text = "".join(path.read_text("utf-8") for path in tests)
    unnamed = {path.stem for path in (ROOT / "examples").glob("*.py")} - set(re.findall(r"\w+", text))
    assert unnamed == {f"optax_{name}" for name in ("linen", "nnx", "equinox")}  # tests/optax joins the words
    assert [name for name in unnamed if f'"{name.removeprefix("optax_")}"' not in text] == []


def paper_function(x):
    return x[0] ** 2 + 2 * x[1] ** 2


def test_the_snippets_of_the_readme_run_as_they_are_and_print_what_it_shows(capsys):
    paper, scipy, *others = SNIPPETS
    assert all(LATER.search(one) for one in others)
    exec(compile(paper, "README.md, snippet 1", "exec"), {})
    assert [capsys.readouterr().out] == blocks("README.md", "text")
    step, end = re.search(r"With `step=(\S+)`, gradient descent alone gets to f = (\S+)\.", README).groups()
    settings = {"method": "gd", "step": float(step), "budget": st.Budget(grads=10)}
    assert f"{st.minimize(paper_function, [4.0, 3.0], **settings).fun:.0e}" == end
    exec(compile(scipy, "README.md, snippet 2", "exec"), {})
    assert re.fullmatch(r"\[[\d. ]+\] CONVERGED \d+\n", capsys.readouterr().out)


def test_the_commands_and_the_extras_of_the_readme_are_there_and_so_is_the_papers_first_step(capsys):
    assert re.findall(r"make (\w+)", README) == ["reproduce"]
    named = set(re.findall(r"steepen (explore|reproduce|sweep)\b", README))
    assert named == {"explore", "reproduce"}
    assert [main([name, "--help"]) for name in named] == [0] * len(named)
    extras = re.findall(r"pip install -e '\.\[(.*?)\]'", README)
    assert {name for line in extras for name in line.split(",")} <= set(PROJECT["optional-dependencies"])
    branin, text = EXPERIMENTS["branin"], " ".join(README.split())
    assert f"lowers f by {branin.cgd_fd:.0f} %, that of gradient descent by {branin.gd:.0f} %" in text


@pytest.mark.slow  # processes, and a cluster of Dask's
@pytest.mark.filterwarnings("ignore")
def test_the_page_on_functions_that_run_elsewhere_does_what_it_says(capsys):
    pytest.importorskip("distributed", reason="distributed is not installed; the group test has it")
    names = {}
    for block in blocks("docs/elsewhere.md", "{code-cell} python"):
        exec(compile(block, "docs/elsewhere.md", "exec"), names)
    out = capsys.readouterr().out
    assert "to the bit: True" in out
    assert "killed: -9" in out
    loaded = names["st"].Run.load(names["folder"] / "run").result()
    assert (loaded.x == st.minimize(lambda x: st.functions["booth"](x), [0.0, 0.0]).x).all()
    assert len(set(re.findall(r"\d s, f = (\S+)", out))) == 1
    assert names["fits"].success.all()


def test_every_status_has_its_section_and_the_groups_are_those_of_success():
    text = (ROOT / "docs" / "status.md").read_text("utf-8")
    sections = {part.partition("\n")[0]: part for part in text.split("\n### ")[1:]}
    assert sorted(sections) == sorted(Status.__members__)
    for name, part in sections.items():
        words = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", part.partition("\n")[2].partition("\n## ")[0])
        assert " ".join(words.replace("**", "").split()) == Status[name].advice
        (named,) = re.findall(r"\(See steepen\.(\S+)\.\)$", Status[name].message)
        assert attrgetter(named)(st) == Status[name].advice
    assert all("**" in part or "As after " in part for part in sections.values())  # whether x can be used
    fine = text.partition("\n## A limit")[0]
    assert {name for name in sections if f"### {name}\n" in fine} == {s.name for s in Status if s.success}


def test_zizmor_finds_nothing_in_the_workflows():
    zizmor = Path(sys.executable).with_name("zizmor.exe" if os.name == "nt" else "zizmor")
    words = [zizmor, "--offline", "--no-progress", "--strict-collection", ROOT / ".github"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_action_is_pinned_by_its_commit_and_names_its_version():
    uses = [line for path in WORKFLOWS for line in path.read_text("utf-8").splitlines() if "uses:" in line]
    assert len(uses) > 10
    pinned = re.compile(r" +(- )?uses: (\S+/\S+@[0-9a-f]{40}  # v\d+\.\d+\.\d+|\$/\S+)")
    assert [line for line in uses if not pinned.fullmatch(line)] == []


def test_the_tests_run_wherever_the_library_is_said_to():
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text("utf-8"))
    matrix = workflow["jobs"]["everywhere"]["strategy"]["matrix"]
    said = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert matrix["python"] == said == ["3.11", "3.12", "3.13", "3.14"]
    assert [name.split("-")[0] for name in matrix["os"]] == ["ubuntu", "ubuntu", "macos", "windows"]
    assert matrix["os"][1].endswith("-arm")


def test_the_oldest_typer_and_the_oldest_rich_that_are_allowed_go_together():
    pinned = (ROOT / "constraints.txt").read_text("utf-8")
    typer, rich = (Requirement(line) for line in PROJECT["optional-dependencies"]["cli"])
    (oldest,) = typer.specifier
    assert f"\ntyper=={oldest.version}.0\n" in pinned  # so that what it needs is what is installed here
    needs = [Requirement(line) for line in requires("typer")]
    (theirs,), (ours,) = (one.specifier for one in (*[n for n in needs if n.name == "rich"], rich))
    assert (theirs.operator, ours.operator) == (">=", ">=")
    assert Version(ours.version) >= Version(theirs.version)


def test_the_conda_recipe_needs_what_the_project_needs():
    recipe = yaml.safe_load((ROOT / "conda/recipe.yaml").read_text("utf-8"))
    python, *needed = (line.replace(" ", "") for line in recipe["requirements"]["run"])
    assert (python, needed) == ("python" + PROJECT["requires-python"], PROJECT["dependencies"])
    wanted = PROJECT["optional-dependencies"]
    extras = {line for name in ("plot", "cli", "pandas", "jax", "torch") for line in wanted[name]}
    theirs = {line.replace(" ", "") for line in recipe["requirements"]["run_constraints"]}
    named = {line.replace("matplotlib", "matplotlib-base").replace("torch", "pytorch") for line in extras}
    assert theirs == named
    assert recipe["build"]["python"]["entry_points"] == [f"{k} = {v}" for k, v in PROJECT["scripts"].items()]


def test_the_readme_says_how_long_the_compiled_engine_compiles():
    rows = re.findall(r"\| 1 ((?:\| [\d.]+ s, [^|]*){3})\|", (ROOT / "docs/jax.md").read_text("utf-8"))
    assert len(rows) == 5
    seconds = [[float(found) for found in re.findall(r"\| ([\d.]+) s,", row)] for row in rows]
    auto, bfgs = ([row[i] / row[2] for row in seconds] for i in (0, 1))
    said = "It compiles for {:.1f} to {:.1f} times as long as optimistix's BFGS "
    said += '(`method="bfgs"`: {:.1f} to {:.1f} times)'
    readme = " ".join((ROOT / "README.md").read_text("utf-8").split())
    assert said.format(min(auto), max(auto), min(bfgs), max(bfgs)) in readme
    (ours, _, theirs), (small, _, other) = (re.findall(r"\| [\d.]+ s, ([\d.]+ ms),", rows[i]) for i in (3, 0))
    assert f"A run with 2 variables takes {small}, optimistix's {other}" in readme
    assert f"with 100 variables {ours} and {theirs}." in readme
