"""Make the picture of the README: `python docs/picture.py`."""

from pathlib import Path

import steepen as st


def main() -> None:
    """Run GD and CGD-FD on Branin with the settings of Table 1, and draw both."""
    f = st.functions["branin"]
    start, settings = [-4.751, 12.459], {"step": 0.01, "budget": st.Budget(grads=40), "trace": "x"}
    runs = {
        "gd": st.minimize(f, start, method="gd", **settings),
        "cgd-fd": st.minimize(f, start, method="cgd-fd", lam=0.07, r=0.2, **settings),
    }
    st.plot.save(st.plot.overview(f, runs), Path(__file__).with_name("branin.svg"))


if __name__ == "__main__":
    main()
