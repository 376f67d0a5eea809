"""The tuned constants of gradients made of values, in one table; `benchmarks/sensitivity.py` varies each."""

# noise
LINE = 1e-9
"""ECnoise takes its values at steps of this part of the size of x."""
SCREEN = 20.0
"""Two values that are further from a straight line than this many roundings are worth four more."""
LEVEL = 10.0
"""A noise level counts from this many roundings on."""
JUMP = 1e3
"""Values that stay equal over a tenth of a line, and then differ by this many roundings, are quantised."""
NOISY = 100.0
"""Values whose error is more than this many roundings are noisy."""
CHANGED = 4.0
"""Noise is measured again where |f| has changed by this factor."""

# intervals
SIZE = 1e-3
"""A variable that is smaller is taken to have this size, as long as nothing else is known of its scale."""
RANGE = 1e5
"""An interval is within this factor of √ε·max(|x|, 1)."""
RESOLVED = 30.0
"""A change of f counts from this many errors of a value on: a second difference, a decrease."""
SURVEY = 1e-4
"""Second differences are first taken over this part of a variable's size."""
LONGER = 30.0
"""Those that are not resolved are taken again over this many times the length."""
UNEVEN = 10.0
"""f″ is surveyed at the start where the sizes of the variables differ by more."""

# accuracy
INACCURATE = 0.1
"""Forward differences give way to central ones where their error exceeds this part of ∇f, both squared."""
ACCURATE = 1e-3
"""Central differences give way to forward ones where the error of those is within this part, both squared."""
SOON = 3.0
"""With noise they give way before ∇f is evaluated where a step gained less than this many times √(h·|f|), h
being the decrease that the error of forward differences hides."""
VISIBLE = 5.0
"""With noise, a decrease shows in the values from this many noise levels on."""
CLEAR = 1e3
"""‖∇f‖ ≤ gtol says nothing where the error of ∇f is more than this many times gtol; and a decrease that is
more than this many times what the error hides is clear in spite of noise."""
SHORTEST = 1e-6
"""After the first step a search fails where α is smaller: smooth functions need no such steps."""
CRAWLS = 1e-2
"""A search that fails again is given up if f has fallen by no more than this part of its decrease so far."""
