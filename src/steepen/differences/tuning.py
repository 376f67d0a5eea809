"""Tuned constants of differences, for runs and line searches too; `benchmarks/sensitivity.py` varies each."""

# noise
LINE = 1e-9  # ECnoise takes its values at steps of this part of the size of x
SCREEN = 20.0  # two values more than this many roundings off a straight line are worth four more
LEVEL = 10.0  # a noise level counts from this many roundings on
JUMP = 1e3  # values equal over a tenth of a line that then differ by this many roundings are quantised
NOISY = 100.0  # values whose error is more than this many roundings are noisy
CHANGED = 4.0  # noise is measured again where |f| has changed by this factor
ELSEWHERE = 1.1  # and at an end, where it has changed by this one: steep slopes may have added to it

# intervals
SIZE = 1e-3  # the size of a variable that is smaller, as long as nothing else is known of its scale
RANGE = 1e5  # an interval is within this factor of √ε·max(|x|, 1)
RESOLVED = 30.0  # a second difference or a decrease of f counts from this many errors of a value on
SURVEY = 1e-4  # second differences are first taken over this part of a variable's size
LONGER = 30.0  # those that are not resolved are taken again over this many times the length
UNEVEN = 10.0  # f″ is surveyed at the start where the sizes of the variables differ by more

# accuracy
INACCURATE = 0.1  # central differences begin where the error of forward ones is more of ∇f, both squared
ACCURATE = 1e-3  # forward differences begin again where their error is within this part, both squared
SOON = 3.0  # with noise, central differences begin once a step gains less than this times √(hidden·|f|)
VISIBLE = 5.0  # with noise, a decrease shows in the values from this many noise levels on
WORTH = 3.0  # at the end of a noisy run, a point that is lower by so many noise levels is worth going on from
STEPS = 1.5  # where f is quantised or x is rounded, by so many steps of f
CLEAR = 1e3  # ‖∇f‖ ≤ gtol says nothing where its error is this many times gtol; rounding may be as many ε
SHORTEST = 1e-6  # after the first step a search fails where α is smaller: smooth functions need no such steps
SLIGHT = 1e-2  # an error that hides no more than this part of all that f has fallen proves something
SMOOTH = 2.0  # second differences over h and 3h, which differ by 9 where f is smooth, may be off by so much
