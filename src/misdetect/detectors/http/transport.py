"""``Transport``: sends requests to one address politely and within a budget, and brings back what was answered.

Bounded concurrency, retries with backoff, bounded time and size of answers, no redirects, TLS always verified. Secrets
come from the environment and are never part of a spec, a pickle or a message. Not here: images, and what JSON means.
"""

import asyncio
import os
import random
import re
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from itertools import takewhile
from typing import Any
from urllib.parse import quote

import httpx

from misdetect.detectors.http.formats import Request
from misdetect.said.errors import BadSpec, BudgetSpent, DetectorFailed

RETRIED = frozenset({429, 500, 502, 503, 504})
LONGEST_BACKOFF = 30.0
LONGEST_RETRY_AFTER = 60.0

Answer = bytes | DetectorFailed | BudgetSpent
"""The body of an answer, or why there is none."""


@dataclass(frozen=True)
class Policy:
    """``concurrency`` requests at once, each given ``timeout`` seconds in all and ``retries`` more attempts, after
    waits that grow from ``backoff`` seconds; an answer may have ``max_bytes``."""

    concurrency: int = 8
    timeout: float = 30.0
    retries: int = 4
    backoff: float = 0.5
    max_bytes: int = 32 << 20


def for_header(variable: str, told: str, what: str) -> str:
    """The environment's ``variable``, which holds ``what`` a header is to say; ``told`` is how it is called."""
    value = os.environ.get(variable, "").strip()
    if not value or not value.isascii() or not value.isprintable():
        found = "holds characters that no header can" if value else "is not set"
        raise BadSpec(f"{told} {found}; set it to the {what}.")
    return value


@dataclass(frozen=True)
class Auth:
    """Where the secret is (the environment variable ``env``) and where it goes: a ``header`` or a ``query`` field."""

    env: str = ""
    header: str = "Authorization"
    query: str = ""

    def secret(self) -> str:
        """The secret now in the environment; empty where the endpoint needs none."""
        if not self.env:
            return ""
        return for_header(self.env, f"auth_env={self.env}: the environment variable {self.env}", "secret")


@dataclass(frozen=True)
class Again:
    """An attempt that may be repeated: why it failed, and how long the server asks to be left alone."""

    reason: str
    after: float | None = None


class Transport:
    """Sends requests to ``url`` from one event loop on a background thread; safe to use from many threads.

    The loop starts with the first exchange and stops with ``close``, with the last reference, or at exit. After a
    fork, and after being pickled, the next exchange starts a new one.
    """

    def __init__(
        self,
        url: str,
        policy: Policy | None = None,
        *,
        auth: Auth | None = None,
        headers: dict[str, str] | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.url, self.policy, self.auth = url, policy or Policy(), auth or Auth()
        self.headers = dict(headers or {})
        self.auth.secret()
        self._restore(rng)

    def _restore(self, rng: random.Random | None = None) -> None:
        # Not seeded by the run: workers that shared a seed would all come back at the same moment.
        self._rng = rng or random.Random()
        self._lock = threading.Lock()
        self._line: _Line | None = None
        self._made = self._repeated = 0  # changed by the loop's thread alone

    def __getstate__(self) -> dict[str, Any]:
        return {"url": self.url, "policy": self.policy, "auth": self.auth, "headers": self.headers}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._restore()

    def exchange(self, prepared: Sequence[Callable[[], Request]], take: Callable[[], None]) -> list[Answer]:
        """The body of the answer to each request, in order, or why there is none.

        Each of ``prepared`` makes its request (on a worker thread, when its turn comes). ``take`` is called before each
        attempt, retries included; where it raises ``BudgetSpent``, the attempt is not made.
        """
        with self._lock:  # so that close() either sees this work and ends it, or comes before it
            line = self._open()
            work = asyncio.run_coroutine_threadsafe(self._all(line, prepared, take), line.loop)
        try:
            return work.result()
        except CancelledError:
            raise self.failed("was closed while it was being asked") from None
        except BaseException:
            work.cancel()
            raise

    def counted(self) -> dict[str, int]:
        """``requests`` made by this process since this was last asked, and how many of them were ``retried`` ones."""
        made, repeated = self._made, self._repeated
        self._made, self._repeated = self._made - made, self._repeated - repeated
        return {"requests": made, "retried": repeated}

    def close(self) -> None:
        """Close connections and stop the background thread; the next exchange starts them again."""
        with self._lock:
            if self._line is not None:
                self._stop()
                self._line = None

    def _open(self) -> "_Line":
        if self._line is None or self._line.pid != os.getpid():
            self._line = _Line(self.policy, self._client())
            self._stop = weakref.finalize(self, self._line.stop)
        return self._line

    def _client(self) -> httpx.AsyncClient:
        secret, headers = self.auth.secret(), dict(self.headers)
        if secret and not self.auth.query:
            bearer = self.auth.header.lower() == "authorization"
            headers[self.auth.header] = f"Bearer {secret}" if bearer else secret
        # The slots bound the connections already; a second bound could only turn a lost connection into a deadlock.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=self.policy.concurrency)
        return httpx.AsyncClient(
            headers={"Accept": "application/json", "Accept-Encoding": "gzip, deflate"} | headers,
            timeout=self.policy.timeout,
            limits=limits,
            follow_redirects=False,
        )

    async def _all(
        self, line: "_Line", prepared: Sequence[Callable[[], Request]], take: Callable[[], None]
    ) -> list[Answer]:
        return await asyncio.gather(*(self._one(line, prepare, take) for prepare in prepared))

    async def _one(self, line: "_Line", prepare: Callable[[], Request], take: Callable[[], None]) -> Answer:
        """One request with its retries. Never raises: a failure must not cost the others their paid answers."""
        again: Again | None = None
        request: Request | None = None
        try:
            for attempt in range(self.policy.retries + 1):
                async with line.slots:
                    if request is None:
                        request = await line.loop.run_in_executor(line.pool, prepare)
                    await line.pause_over()
                    try:
                        take()
                    except BudgetSpent as spent:
                        last = f" {self.failed(f'last gave {again.reason}')}" if again else ""
                        return BudgetSpent(f"{spent}{last}")
                    self._made += 1
                    self._repeated += attempt > 0
                    outcome = await self._attempt(line.client, request)
                    if not isinstance(outcome, Again):
                        return outcome
                    again = outcome
                    if again.after is not None:
                        line.pause(again.after)
                if attempt < self.policy.retries:
                    longest = min(LONGEST_BACKOFF, self.policy.backoff * 2**attempt)
                    await asyncio.sleep(max(again.after or 0.0, self._rng.uniform(0, longest)))
        except DetectorFailed as error:
            return error
        except Exception as error:
            return self.failed(f"could not be asked: {type(error).__name__}: {error}")
        assert again is not None
        times = self.policy.retries + 1
        return self.failed(f"gave {again.reason}" + (f" (the last of {times} attempts)" if times > 1 else ""))

    async def _attempt(self, client: httpx.AsyncClient, request: Request) -> bytes | DetectorFailed | Again:
        url = httpx.URL(self.url)
        if request.path:
            url = url.copy_with(path=url.path.rstrip("/") + request.path)
        if self.auth.query:
            url = url.copy_merge_params({self.auth.query: self.auth.secret()})
        sent = client.build_request(request.method, url, content=request.content, headers=dict(request.headers))
        try:
            # httpx bounds each read; a server that drips a byte at a time is only stopped by a bound on the whole.
            async with asyncio.timeout(self.policy.timeout):
                response = await client.send(sent, stream=True)
                try:
                    body = await self._body(response)
                finally:
                    await response.aclose()
        except (TimeoutError, httpx.TimeoutException):
            return Again(f"no answer within {self.policy.timeout:g} s")
        except (httpx.LocalProtocolError, httpx.UnsupportedProtocol) as error:
            return self.failed(f"cannot be asked this way: {error}")
        except httpx.TransportError as error:
            reason = str(error).rstrip(".") or type(error).__name__
            if _untrusted(error):
                return self.failed(f"is not trusted: {reason}; give its authority in SSL_CERT_FILE")
            return Again(f"no answer ({reason})")
        except httpx.DecodingError as error:
            return self.failed(f"sent an answer that does not decompress ({error})")
        return self._judge(response, body)

    async def _body(self, response: httpx.Response) -> bytes | None:
        """The body, or ``None`` where it is larger than allowed; of an error only the beginning matters."""
        if response.headers.get("Content-Encoding", "identity").lower() not in ("identity", "gzip", "deflate"):
            raise self.failed(f"sent Content-Encoding {response.headers['Content-Encoding']!r}, which nobody asked for")
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if not response.is_success and len(body) >= 1000:
                break
            if len(body) > self.policy.max_bytes:
                return None
        return bytes(body)

    def _judge(self, response: httpx.Response, body: bytes | None) -> bytes | DetectorFailed | Again:
        status = f"status {response.status_code}"
        if body is None:
            return self.failed(f"sent an answer of more than {self.policy.max_bytes} bytes")
        if response.is_success:
            return body
        text = self._hide(" ".join(body.decode("utf-8", "replace").split()))[:200]
        if response.status_code in RETRIED:
            return Again(f"{status}{f': {text}' if text else ''}", retry_after(response.headers.get("Retry-After")))
        if response.has_redirect_location:
            where = self._hide(response.headers["Location"])[:200]
            return self.failed(f"redirects to {where} ({status}), which is not followed: give the final address")
        return self.failed(f"refused with {status}: {text or 'no explanation'}")

    def failed(self, what: str) -> DetectorFailed:
        """A failure that begins with the address and goes on with ``what``; the secret is struck out."""
        text = " ".join(self._hide(what).split())
        return DetectorFailed(f"{self.url} {text[:500].rstrip('.')}.")

    def _hide(self, text: str) -> str:
        """``text`` without the secret, which an endpoint may echo."""
        secret = os.environ.get(self.auth.env, "").strip() if self.auth.env else ""
        for form in (secret, quote(secret, safe="")):
            text = struck_out(text, form) if form else text
        return text


def struck_out(text: str, secret: str) -> str:
    """``text`` without ``secret``, and without its beginning: an echo may have been cut off before it came here."""
    at = text.find(secret[:8])
    while at >= 0:
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(text[at:], secret, strict=False)))
        text = f"{text[:at]}***{text[at + shared :]}"
        at = text.find(secret[:8], at + 3)
    return text


class _Line:
    """The event loop, its thread, and the client and slots that belong to it."""

    def __init__(self, policy: Policy, client: httpx.AsyncClient) -> None:
        self.pid = os.getpid()
        self.client = client
        self.slots = asyncio.Semaphore(policy.concurrency)
        self.pool = ThreadPoolExecutor(min(policy.concurrency, os.cpu_count() or 1), "misdetect-encode")
        self.loop = asyncio.new_event_loop()
        self._paused_until = 0.0
        self._thread = threading.Thread(target=self.loop.run_forever, name="misdetect-http", daemon=True)
        self._thread.start()

    def pause(self, seconds: float) -> None:
        """Let nobody send for ``seconds``: a server that is overloaded is overloaded for all of us."""
        self._paused_until = max(self._paused_until, self.loop.time() + seconds)

    async def pause_over(self) -> None:
        while (wait := self._paused_until - self.loop.time()) > 0:
            await asyncio.sleep(wait)

    def stop(self) -> None:
        """Cancel what is under way and end the thread. Runs at most once, at the latest at interpreter exit."""
        if self.pid != os.getpid() or self.loop.is_closed():
            return
        if threading.current_thread() is self._thread:  # the last reference died in a task of our own
            threading.Thread(target=self.stop, daemon=True).start()
            return
        with suppress(Exception):  # a connection that will not close must not keep the program from ending
            asyncio.run_coroutine_threadsafe(self._finish(), self.loop).result(5)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(5)
        self.pool.shutdown(wait=False)
        if not self._thread.is_alive():
            self.loop.close()

    async def _finish(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.client.aclose()


def _untrusted(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error is not None


def retry_after(value: str | None) -> float | None:
    """Seconds to wait by a ``Retry-After`` header (seconds or an HTTP date), at most ``LONGEST_RETRY_AFTER``."""
    if value is None:
        return None
    try:
        if re.fullmatch(r"\s*\d{1,9}(\.\d*)?\s*", value):
            seconds = float(value)
        else:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER)
