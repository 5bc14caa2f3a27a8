"""mlx-lm's server, unmodified, on this module: over HTTP, as a stream, and for two clients at once."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from hiprt.bench.story import CHECKPOINT

pytest.importorskip("mlx_lm")
pytestmark = [pytest.mark.timeout(600), pytest.mark.only("cpu", reason="what it shows is above the device")]
PROMPTS = ("Once upon a time", "The little dog")
TOKENS = 12


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The address of a server that runs while this file's tests do."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("server") / "log"
    command = ("-m", "hiprt", "run", "-m", "mlx_lm", "server", "--model", str(CHECKPOINT), "--port", str(port))
    with log.open("w") as said:
        server = subprocess.Popen(
            [sys.executable, *command], stdout=said, stderr=said, env=os.environ | {"HF_HUB_OFFLINE": "1"}
        )
        try:
            until = time.monotonic() + 300
            while True:
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10).close()
                    break
                except (urllib.error.URLError, ConnectionError):
                    assert server.poll() is None, log.read_text()
                    assert time.monotonic() < until, log.read_text()
                    time.sleep(0.2)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.send_signal(signal.SIGINT)
            try:
                server.wait(60)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def ask(address, path, **options):
    """Send a request; return the body of the answer."""
    request = urllib.request.Request(
        f"{address}/v1/{path}",
        json.dumps({"max_tokens": TOKENS, "temperature": 0, **options}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        return answer.read().decode()


def whole(address, prompt):
    """Return the text that comes in one piece."""
    answer = json.loads(ask(address, "completions", prompt=prompt))
    assert answer["usage"]["completion_tokens"] == TOKENS
    assert answer["choices"][0]["finish_reason"] == "length"
    return answer["choices"][0]["text"]


def streamed(address, prompt):
    """Return the pieces of a stream of server-sent events."""
    lines = [line for line in ask(address, "completions", prompt=prompt, stream=True).splitlines() if line]
    events = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    return [choice["text"] for event in events[:-1] for choice in json.loads(event)["choices"]]


@pytest.fixture(scope="module")
def texts(address):
    """What is written after each prompt."""
    return {prompt: whole(address, prompt) for prompt in PROMPTS}


def test_a_text_is_that_of_generate(address, texts):
    done = subprocess.run(
        [
            *(sys.executable, "-m", "hiprt", "run", "-m", "mlx_lm", "generate", "--model", str(CHECKPOINT)),
            *("--prompt", PROMPTS[0], "--max-tokens", str(TOKENS), "--temp", "0", "--verbose", "False"),
            "--ignore-chat-template",
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
    )
    assert done.stdout.strip() == texts[PROMPTS[0]].strip()


def test_a_stream_has_the_same_text_in_pieces(address, texts):
    pieces = streamed(address, PROMPTS[0])
    assert "".join(pieces) == texts[PROMPTS[0]]
    assert len(pieces) > 2


def test_two_clients_at_once_get_their_own_texts(address, texts):
    with ThreadPoolExecutor(2) as clients:
        first, second = clients.map(lambda prompt: "".join(streamed(address, prompt)), PROMPTS)
    assert [first, second] == [texts[prompt] for prompt in PROMPTS]


def test_a_request_that_is_none_is_refused(address):
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(address, "completions", prompt=PROMPTS[0], max_tokens=-1)
    refused.value.close()
    assert 400 <= refused.value.code < 600
