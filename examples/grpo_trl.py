"""GRPO of TRL with a penalty on the gradient in the place of KL, as a mixin; on a tiny model made here.

    python examples/grpo_trl.py

The published form: g₁ at the weights, g₂ after a step of ε·g₁ up, and the optimizer takes
g₁ + (γ/ε)(g₂ − g₁). Embeddings are not moved, and passes are in float32. γ depends on the model (the same
value has been found to be far too much on another), so `ratio` may set it: the penalty's gradient is as many
parts of g₁.
"""

import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer


class GradientPenalty:
    """A mixin: `class Mine(GradientPenalty, GRPOTrainer): pass`, with `gamma` or `ratio`."""

    def __init__(self, *args, eps=1e-3, gamma=None, ratio=None, **kwargs):
        if (gamma is None) is (ratio is None):
            raise TypeError(f"gamma, ratio: expected one of them, got gamma={gamma!r} and ratio={ratio!r}")
        self.eps, self.gamma, self.ratio, self._kept = eps, gamma, ratio, None
        super().__init__(*args, **kwargs)
        embedded = {
            id(p) for m in self.model.modules() if isinstance(m, torch.nn.Embedding) for p in m.parameters()
        }
        own = [
            (name, p)
            for name, p in self.model.named_parameters()
            if p.requires_grad and id(p) not in embedded
        ]
        self.perturbed, self._own = [name for name, _ in own], [p for _, p in own]
        if any(p.dtype != torch.float32 for p in self._own):
            raise TypeError("model: expected float32, as a difference over 1e-3 is lost in half precision")

    def _prepare_inputs(self, batch):
        """Return the completions of this micro-batch, the same in both passes."""
        if self._kept is None:
            self._kept = super()._prepare_inputs(batch)
        return self._kept

    def training_step(self, model, inputs, *args, **kwargs):
        """Leave in the gradients, beside what they held, that of the penalised loss."""
        params = [p for p in model.parameters() if p.requires_grad]
        before = [p.grad for p in params]
        loss = self._pass(model, inputs, params, *args, **kwargs)
        first = [p.grad for p in params]
        step, own = self._step, {id(p) for p in self._own}
        held = [
            (p, p.detach().clone(), g)
            for p, g in zip(params, first, strict=True)
            if id(p) in own and g is not None
        ]
        with torch.no_grad():
            for p, _, g in held:
                p.add_(g, alpha=self.eps)
        try:
            self._pass(model, inputs, params, *args, **kwargs)
        finally:
            self._step, self._kept = step, None  # one step, of which the next begins with new completions
            with torch.no_grad():
                for p, x, _ in held:
                    p.copy_(x)
        g1, g2 = (
            [torch.zeros_like(p) if g is None else g for p, g in zip(params, gs, strict=True)]
            for gs in (first, [p.grad for p in params])
        )
        change = torch._foreach_sub(g2, g1)
        nu = self.gamma / self.eps if self.ratio is None else self._weight(g1, change)
        for p, old, g, u in zip(params, before, g1, change, strict=True):
            d = g + nu * u
            p.grad = d if old is None else old + d
        return loss

    def _pass(self, model, inputs, params, *args, **kwargs):
        for p in params:
            p.grad = None
        return super().training_step(model, inputs, *args, **kwargs)

    def _weight(self, g, change):
        size, length = (torch.stack(torch._foreach_norm(part)).norm() for part in (change, g))
        return torch.where(size > 0, self.ratio * length / size, 0.0)


class PenalisedGRPO(GradientPenalty, GRPOTrainer):
    """GRPO with the penalty."""


WORDS = ("the", "a", "cat", "dog", "sat", "ran", "on", "mat", ".", "good", "bad")


def tiny(words=WORDS, width=32):
    """Return a model of two layers and its tokenizer."""
    names = {word: i for i, word in enumerate([*words, "<pad>", "<eos>"])}
    plain = Tokenizer(models.WordLevel(names, unk_token="<pad>"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="<pad>", eos_token="<eos>")
    ends = {"eos_token_id": names["<eos>"], "bos_token_id": names["<eos>"], "pad_token_id": names["<pad>"]}
    config = GPT2Config(vocab_size=len(names), n_positions=64, n_embd=width, n_layer=2, n_head=2, **ends)
    return GPT2LMHeadModel(config), tokenizer


def main(steps=10, seed=0, **penalty):
    """Train for the word "good", and return the trainer."""
    torch.manual_seed(seed)
    model, tokenizer = tiny()
    prompts = Dataset.from_list([{"prompt": p} for p in ("the cat", "a dog", "the mat", "a cat") * 8])
    with tempfile.TemporaryDirectory() as folder:
        args = GRPOConfig(
            folder, max_steps=steps, per_device_train_batch_size=8, num_generations=4,
            max_completion_length=8, learning_rate=1e-2, beta=0.0, report_to="none", use_cpu=True,
            save_strategy="no", disable_tqdm=True, bf16=False, logging_steps=5, seed=seed,
        )  # fmt: skip

        def reward(completions, **_):
            return [float(text.split().count("good")) for text in completions]

        trainer = PenalisedGRPO(
            model=model, reward_funcs=reward, args=args, train_dataset=prompts, processing_class=tokenizer,
            **(penalty or {"ratio": 0.3}),
        )  # fmt: skip
        trainer.train()
    return trainer


if __name__ == "__main__":
    trainer = main(30)
    print("perturbed:", ", ".join(trainer.perturbed))
    print("rewards:", [round(line["reward"], 2) for line in trainer.state.log_history if "reward" in line])
