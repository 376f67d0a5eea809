"""Faults of the part `torch` of the suite (conftest.py): training, its hosts, and BoTorch."""

from . import Fault, within

FAULTS: tuple[Fault, ...] = (
    *within(
        "torch/_tensors.py",
        (
            "promote_types(dtype, torch.float32)",
            "promote_types(dtype, torch.bfloat16)",
            "norms of bf16 gradients are taken in float32",
        ),
    ),
    *within(
        "torch/_passes.py",
        (
            "        self._back()\n        self._clear()",
            "        self._clear()",
            "an exception in a pass leaves the weights to the bit",
        ),
        (
            "        torch.clear_autocast_cache()  # it holds",
            "        # it holds",
            "under autocast the second pass sees the moved weights",
        ),
        ("n = self._n / unit", "n = self._n", "a scaler does not change the step"),
        (
            "self._scale() / self._micro if self.ascent_fraction < 1 else self._scale()",
            "self._scale()",
            "GapSAM sees the mean over micro-batches",
        ),
        (
            "if not self.needs_ascent_pass or not (self._had_ascent or self.k == 0):",
            "if not self.needs_ascent_pass or not self._had_ascent:",
            "step 0 counts both of its passes",
        ),
        (
            "if self._idle == _IDLE:",
            "if self._idle > 100 * _IDLE:",
            "memory is given back while there is no ascent step",
        ),
        (
            "if self._step is step and self._turn is not Turn.DUE:",
            "if self._turn is not Turn.DUE:",
            "passes that are closed late leave a later step alone",
        ),
        (
            "        self.restore()\n        super()._load_own_state(state)",
            "        super()._load_own_state(state)",
            "a state loaded within a step puts the weights back",
        ),
        (
            "needs_ascent_pass and self.ascent_fraction == 1:",
            "needs_ascent_pass and self.ascent_fraction < 1:",
            "BatchNorm's statistics count one pass",
        ),
        (
            ", gradients_of(self._others())]",
            "]",
            "parameters of another optimizer get the gradient of one pass",
        ),
        ("        self._refuse_other()\n", "", "two wrappers do not take a step at once"),
    ),
    *within(
        "torch/_ascent.py",
        (
            "rows = min(max(wanted, 2), n)",
            "rows = min(max(wanted, 1), n)",
            "a share is of two examples at least, for BatchNorm",
        ),
        (
            "self.perturbed += self._had_ascent",
            "self.perturbed += 1",
            "the report counts the steps with an ascent step",
        ),
        (
            ".append(loss.detach().clone())",
            ".append(loss.detach())",
            "a loss that the next pass writes over was told in time",
        ),
        (
            "            self._clear()  # the scaler may have skipped the step\n",
            "",
            "an overflow skips the step and the next one works",
        ),
        (
            "            self._refuse_gradients()\n",
            "",
            "a closure does not drop accumulated gradients unsaid",
        ),
        ("    @Optimizer.profile_hook_step\n", "", "step hooks are called"),
    ),
    *within(
        "torch/_joined.py",
        (
            "            part.state = self.state\n",
            "            pass\n",
            "a run with several bases is resumed bit for bit",
        ),
    ),
    *within(
        "torch/_trace.py",
        ("setattr(module, name, buffer)", "pass", "a buffer that a pass replaces counts one pass"),
        (
            "            module.training = training\n",
            "            module.train()\n",
            "a reading of held-out data leaves every module in its mode",
        ),
        ("training and dropout and not", "False and not", "a reading has dropout as training has"),
    ),
    *within(
        "torch/_cut.py",
        (
            "return words[rows] if len(words) == n else words",
            "return words",
            "a list of words is cut as the tensors are",
        ),
    ),
    *within(
        "torch/_wrapper.py",
        ("min(k, last - 1)", "min(k, last)", "a schedule that has ended keeps its last value"),
    ),
    *within(
        "torch/_cgd.py",
        (
            "after - n - change, value=0.5)",
            "after - n - change, value=1.0)",
            "the guard turns back what does not descend f, and nothing else",
        ),
        (
            "                p.grad.mul_(nu)",
            "                p.grad.mul_(1)",
            "of a parameter that only the second pass reaches, g is 0",
        ),
        ("abs(2 * lam) > (1 + 1e-6) * c", "2 * lam > (1 + 1e-6) * c", "a λ beyond the limit is told"),
    ),
    *within(
        "_core/ascent.py",
        ("clip(min=abs(2 * lam))", "clip(min=2 * lam)", "CGD with a negative λ is its formula"),
        ('"bfloat16": 1e-2', '"bfloat16": 1e-3', "CGD under autocast ascent steps as far as bf16 needs"),
        ("xp.fmax(gnorm, square**0.5)", "gnorm", "a small gradient makes no long ascent step"),
        (
            ".clip(-FALL, 1)",
            ".clip(-1, 1)",
            "a rise above the target shortens faster than one below lengthens",
        ),
        ("gap / validation - least", "gap / validation", "the gate opens at a fifth"),
        (
            "xp.where(validation > 0, part, xp.ones_like(part))",
            "part",
            "for a loss without a floor at zero the gate is open",
        ),
    ),
    *within(
        "torch/paper.py",
        (
            "return -self._up * self.rho(self.k) / n",
            "return -self.rho(self.k) / n",
            "MSAM that maximises goes the way of its momentum",
        ),
        (
            "return [t * one for t, one in zip(scales, scaled, strict=True)], norm(scaled)",
            "return scaled, norm(scaled)",
            "ASAM is its formula",
        ),
    ),
    *within(
        "torch/_gap_sam.py",
        (
            "self.strength * min(self.k / (self.total_steps - 1), 1.0)",
            "self.strength * (self.k / (self.total_steps - 1))",
            "after the planned steps the part stays where it is",
        ),
        ("gap = self._up * (now", "gap = (now", "GapSAM that maximises f is GapSAM that minimises −f"),
        (
            'for sent in state["sent"]]',
            'for sent in state["sent"][::-1]]',
            "a resumed run decides on ascent steps by the same reading",
        ),
        (
            "return value / _dist.get_world_size()",
            "return value",
            "the loss of several processes is their mean",
        ),
    ),
    *within(
        "torch/_means.py",
        (
            "torch.where(new[0].abs() < math.inf, new, table)",
            "torch.where(new[0] == new[0], new, table)",
            "a held-out loss of infinity is passed over",
        ),
        ("(squares * (n / (n - 1)))", "(squares * n)", "standard errors are of n − 1"),
    ),
    *within(
        "torch/_validation.py",
        ("value / n if self.by_sum else value", "value", "a loss that is a sum gives the steps of the mean"),
        ("counts.append(n)", "counts.append(1)", "the held-out loss is the mean over the examples"),
    ),
    *within(
        "_core/lanczos.py",
        ("float(vectors[-1, 0])", "float(vectors[0, 0])", "an eigenvalue is as near as the error says"),
    ),
    *within(
        "benchmarks/training/robustness.py",
        ("w.abs().flatten(1).amax(1)", "w.abs().amax()", "weights are rounded by their channel"),
    ),
    *within(
        "train/_compare.py",
        ('"trial": replace(task, data=judged)', '"trial": task', "the choice never sees the test part"),
    ),
    *within(
        "train/_given.py",
        ("take(x, order), y[order]", "take(x, order), y", "every example keeps its target"),
        (
            "drawing(0):  # a loader",
            "drawing(torch.seed()):  # a loader",
            "a loader that shuffles is the same data in the next call",
        ),
    ),
    *within(
        "train/comparison.py",
        ("if loss > 0 > accuracy:", "if loss > 0:", "the verdict says where the loss fell and accuracy too"),
    ),
    *within(
        "train/training.py",
        (
            "* (len(y) / examples)",
            "/ -(-examples // _CHUNK)",
            "a loss that is taken in parts is the mean over the examples",
        ),
        (
            "multi_avg_fn(min(decay, n / (n + 1)))",
            "multi_avg_fn(decay)",
            "the first weights do not stay in the mean of the weights",
        ),
        ("with drawing(seed, device):", "with nullcontext():", "what dropout draws follows from the seed"),
    ),
    *within(
        "train/results.py",
        ("np.nanargmin(self.held_out)", "np.nanargmin(self.losses)", "early stopping is by held-out data"),
    ),
    *within(
        "train/optimizers.py",
        (
            "(len(perturbed) + (0 not in perturbed))",
            "len(perturbed)",
            "the budget of gradients is never exceeded",
        ),
    ),
    *within(
        "benchmarks/training/data.py",
        ("x[:start].mean()", "x.mean()", "the scale of the data is that of the training part"),
    ),
    *within(
        "benchmarks/training/cifar.py",
        ("rows[:, form.labels - 1]", "rows[:, 0]", "the classes of CIFAR-100 are the fine ones"),
    ),
    *within(
        "integrations/transformers.py",
        (
            "return items * len(self._samples)",
            "return items",
            "the Trainer's items make the mean over a share",
        ),
        (
            "self._items, self.loss_is_scaled_for_ga = None, False",
            "pass",
            "the loss of a model that ignores the items is divided",
        ),
        ('self.is_in_train and "eval_loss"', '"eval_loss"', "an evaluation after the run sets nothing"),
        (
            "return self._at_x.pop(0) if self._at_x else loss",
            "return loss",
            "the Trainer logs the loss at the weights",
        ),
    ),
    *within(
        "integrations/lightning.py",
        (
            " * (trainer.accumulate_grad_batches / self._count)",
            "",
            "GapSAM is told the mean of a short last step",
        ),
        (
            "if not trainer.sanity_checking and is_told",
            "if is_told",
            "Lightning's sanity check tells no loss",
        ),
        (
            "self._run(trainer, pl_module, batch, batch_idx, each)",
            "self._run(trainer, pl_module, batch, batch_idx, self._count)",
            "both passes of a short last step are divided alike",
        ),
    ),
    *within(
        "integrations/_ascent_loop.py",
        (
            "optimizer.shortest < ACCURATE[dtype]",
            "optimizer.shortest > ACCURATE[dtype]",
            "a CGD too short for the precision is refused",
        ),
    ),
    *within(
        "integrations/botorch/_candidates.py",
        ("if i in self.free else part[..., place].detach()", "", "features that are fixed for each row stay"),
        ("if np.any(result.nfev):", "if True:", "without time for a step the values are those of the starts"),
    ),
    *within(
        "integrations/botorch/_fit.py",
        (
            "best = int(np.argmin(f))",
            "best = int(np.argmin(result.fun))",
            "a start without a likelihood is not the best",
        ),
    ),
    *within(
        "integrations/botorch/_penalties.py",
        (".sum(dim=(-1, -2)) / 2", ".sum(dim=(-1, -2))", "the penalty is the deviation to second order"),
    ),
    *within(
        "integrations/botorch/_rows.py",
        ("self._most = most // 2", "self._most = most - 1", "a batch that does not fit is halved"),
    ),
)
