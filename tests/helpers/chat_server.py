"""A real HTTP server that speaks as an OpenAI-compatible chat endpoint, as a test scripts it."""

import json
import re
import socket
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from fedaudit.judge.prompt import ASPECTS

PART = re.compile(r"--- (\S+(?: \d)?) (\w+) begins ---\n(.*?)\n--- \1 \2 ends ---", re.DOTALL)


class _Listener(ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        """Print an error, unless the client hung up, whenever it did."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def parts(request):
    """Return the instruction and both answers of a recorded request, as the judge reads them."""
    found = {
        name: text for name, _, text in PART.findall(request["body"]["messages"][1]["content"])
    }
    return found["instruction"], found["answer 1"], found["answer 2"]


def scored(one, two):
    """Return the JSON of two answers that get one score each in every aspect."""
    return json.dumps({"1": dict.fromkeys(ASPECTS, one), "2": dict.fromkeys(ASPECTS, two)})


def chat(text):
    """Return a chat completion's body."""
    return json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]})


@contextmanager
def nobody_there():
    """Give the URL of a port that refuses connections, and that no server takes meanwhile."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{place.getsockname()[1]}/v1"


class Server:
    """Answers with `reply(request)`: (status, headers, body); `requests` keeps all."""

    def __init__(self, reply, port=0):
        self.port = port
        self.reply, self.requests, self.most, self._now = reply, [], 0, 0
        self._lock = threading.Lock()

    @contextmanager
    def running(self):
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self):
                self.do_POST()

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                request = {
                    "path": self.path,
                    "headers": dict(self.headers),
                    "body": json.loads(body or "null"),
                }
                with outer._lock:
                    outer.requests.append(request)
                    request["number"] = len(outer.requests)
                    outer._now += 1
                    outer.most = max(outer.most, outer._now)
                try:
                    answer = outer.reply(request)
                finally:
                    with outer._lock:
                        outer._now -= 1
                if answer is None:  # hang up without a word
                    self.close_connection = True
                    return
                status, headers, text = answer
                data = text.encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args):
                pass

        server = _Listener(("127.0.0.1", self.port), Handler)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def prefers(score):
    """Return a reply that scores each answer by `score(prompt, answer)`."""

    def reply(request):
        prompt, one, two = parts(request)
        return 200, {}, chat(scored(score(prompt, one), score(prompt, two)))

    return reply
