"""A browser without a window, to read what a page shows once its program has run."""

import html
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")


def browser():
    """The path of a browser, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def shown(page, program="", width=1400, height=1600):
    """What a page holds after its program and then another one ran, as HTML; the errors of both are in its body.

    Parameters
    ----------
    page : str
        The page's HTML.
    program : str
        More of JavaScript, run when the page has been drawn. What it returns is the text of the element ``result``.
    """
    watch = "<script>addEventListener('error', (event) => document.title = `failed: ${event.message}`);</script>"
    more = f"""<script>
      setTimeout(async () => {{
        const out = document.createElement("output");
        out.id = "result";
        try {{ out.textContent = JSON.stringify(await (async () => {{ {program} }})() ?? null); }}
        catch (error) {{ document.title = `failed: ${{error}}`; }}
        document.body.append(out);
      }}, 200);
    </script>"""
    page = page.replace("<style>", f"{watch}<style>", 1).replace("</body>", f"{more}</body>")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        file.write_text(page)
        command = [browser(), "--headless=new", "--no-sandbox", "--disable-gpu", f"--window-size={width},{height}"]
        command += [f"--user-data-dir={folder}/profile", "--virtual-time-budget=5000", "--dump-dom", file.as_uri()]
        # A sanitizer that is preloaded is for this program, not for a browser.
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True).stdout


def result(document):
    """What the other program returned, as JSON text."""
    return html.unescape(re.search(r'<output id="result">(.*?)</output>', document, re.S)[1])
