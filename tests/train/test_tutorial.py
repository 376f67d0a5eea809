"""The tutorial on fine-tuning, with a small network in the place of MiniLM."""

import re
from pathlib import Path

import pytest
import torch

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "finetune.md"
torch.set_num_threads(1)
pytestmark = pytest.mark.slow  # the same steps are those of tests/test_transformers.py


@pytest.fixture
def names():
    """Run the blocks of the page, one after another, as far as they only define."""
    pytest.importorskip("transformers")
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 4
    found = {"__name__": "tutorial"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"finetune.md, block {number + 1}", "exec"), found)
    return found


def small():
    """Return a small network, and a tokenizer that knows words by their lengths."""
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1}
    model = BertForSequenceClassification(BertConfig(vocab_size=20, num_labels=8, **sizes))

    def tokenizer(texts, **_):
        rows = [[min(len(word), 18) for word in (text.split() + ["."] * 12)[:12]] for text in texts]
        return {"input_ids": rows, "attention_mask": [[1] * 12 for _ in rows]}

    return model, tokenizer


@pytest.mark.filterwarnings("ignore")  # of the Trainer, and of a gap that is none after so few steps
def test_both_runs_of_the_tutorial_are_made(names, capsys):
    names |= {"load": small, "TRAIN": 5, "HELD_OUT": 2, "TEST": 3}
    found = names["compare"](steps=24)
    assert set(found) == {"AdamW", "AdamW with the rule"}
    assert all(1.0 < loss < 4.0 and 0 <= accuracy <= 1 for loss, accuracy in found.values())
    said = capsys.readouterr().out
    assert re.search(r"steps taken +24\n", said)
    assert "AdamW with the rule: test loss" in said
