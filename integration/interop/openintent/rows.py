"""Says of a server, rule by rule of RFC-0021, whether it keeps to it.

Its arguments are a server's URL and an API key that is good for every agent. It prints a JSON object: what each rule
that it checks has come to, "ok" or what was seen instead. The names of the rules are those of their tests in package openintent.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import time
from typing import Any, Callable

import httpx

url, key = sys.argv[1:]
http = httpx.Client(base_url=url + "/api/v1", timeout=10)
rules: dict[str, Callable[[], None]] = {}


def rule(f: Callable[[], None]) -> Callable[[], None]:
    rules[f.__name__] = f
    return f


def call(agent: str, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
    return http.request(method, path, json=body, headers={"X-API-Key": key, "X-Agent-ID": agent, **headers})


def made(agent: str, path: str, body: Any) -> dict[str, Any]:
    answer = call(agent, "POST", path, body)
    assert answer.status_code in (200, 201), f"POST {path}: {answer.status_code} {answer.text}"
    return answer.json()


def intent(by: str = "planner") -> str:
    return made(by, "/intents", {"title": "work", "description": "", "state": {}, "constraints": {}, "created_by": by})["id"]


def channel(i: str, by: str = "planner", **body: Any) -> str:
    return made(by, f"/intents/{i}/channels", {"name": f"talk-{time.monotonic_ns()}", **body})["id"]


def closed_to(i: str, *agents: str) -> None:
    entries = [{"principal_id": a, "principal_type": "agent", "permission": "write"} for a in agents]
    answer = call("planner", "PUT", f"/intents/{i}/acl", {"default_policy": "closed", "entries": entries})
    assert answer.status_code == 200, answer.text


def send(agent: str, c: str, kind: str = "notify", **body: Any) -> httpx.Response:
    return call(agent, "POST", f"/channels/{c}/messages", {"sender": agent, "message_type": kind, "payload": {}, **body})


def messages(agent: str, c: str, **query: str) -> list[dict[str, Any]]:
    answer = http.get(f"/channels/{c}/messages", params=query or {"limit": "1000"}, headers={"X-API-Key": key, "X-Agent-ID": agent})
    assert answer.status_code == 200, f"list: {answer.status_code} {answer.text}"
    return answer.json()


def is_(answer: httpx.Response, *statuses: int) -> None:
    assert answer.status_code in statuses, f"{answer.status_code} {answer.text[:200]}"


def eventually(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 5
    while not holds():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.05)


@rule
def C2_no_channel_without_its_intent() -> None:
    is_(call("planner", "POST", "/intents/nothing/channels", {"name": "x"}), 404)


@rule
def C3_names_are_unique() -> None:
    i = intent()
    channel(i, name="one")
    is_(call("planner", "POST", f"/intents/{i}/channels", {"name": "one"}), 409)


@rule
def C4_no_key_is_shown() -> None:
    c = channel(intent())
    text = call("planner", "GET", f"/channels/{c}").text
    assert key not in text, "created_by is the API key"


@rule
def C6_policies_are_checked() -> None:
    is_(call("planner", "POST", f"/intents/{intent()}/channels", {"name": "x", "member_policy": "weird"}), 422)


@rule
def C7_options_are_merged() -> None:
    c = channel(intent(), options={"audit": True})
    got = call("planner", "GET", f"/channels/{c}").json()["options"]
    assert got == {"audit": True, "ttl_seconds": None, "max_messages": 1000}, got


@rule
def C11_a_name_creates_its_channel() -> None:
    is_(call("planner", "POST", f"/intents/{intent()}/channels/fresh/messages", {"sender": "planner", "message_type": "notify", "payload": {}}), 201)


@rule
def C12_closed_is_final() -> None:
    c = channel(intent())
    is_(call("planner", "PATCH", f"/channels/{c}", {"status": "closed"}), 200)
    is_(call("planner", "PATCH", f"/channels/{c}", {"status": "open"}), 409)


@rule
def C13_others_do_not_manage() -> None:
    c = channel(intent())
    is_(call("reviewer", "PATCH", f"/channels/{c}", {"members": ["reviewer"]}), 403)


@rule
def C14_others_do_not_delete() -> None:
    c = channel(intent())
    is_(call("reviewer", "DELETE", f"/channels/{c}"), 403)


@rule
def C15_ttl() -> None:
    c = channel(intent(), options={"ttl_seconds": 1})
    eventually(lambda: call("planner", "GET", f"/channels/{c}").json()["status"] == "closed", "closed after its ttl")


@rule
def C16_the_oldest_go() -> None:
    c = channel(intent(), options={"max_messages": 3})
    for _ in range(10):
        is_(send("planner", c), 201)
    assert len(messages("planner", c)) == 3, len(messages("planner", c))
    assert call("planner", "GET", f"/channels/{c}").json()["message_count"] == 10


@rule
def C17_strangers_see_no_channel() -> None:
    i = intent()
    c = channel(i)
    closed_to(i, "reviewer")
    is_(call("stranger", "GET", f"/channels/{c}"), 403, 404)


@rule
def M2_types_are_checked() -> None:
    is_(send("planner", channel(intent()), "weird"), 422)


@rule
def M3_nobody_speaks_for_another() -> None:
    is_(call("planner", "POST", f"/channels/{channel(intent())}/messages", {"sender": "reviewer", "message_type": "notify", "payload": {}}), 403)


@rule
def M4_a_request_is_for_somebody() -> None:
    is_(send("planner", channel(intent()), "request"), 422)


@rule
def M5_only_requests_are_answered() -> None:
    c = channel(intent())
    m = send("planner", c, to="reviewer").json()["id"]
    is_(call("reviewer", "POST", f"/channels/{c}/messages/{m}/reply", {"sender": "reviewer", "payload": {}}), 422)


@rule
def M5_a_response_names_its_request() -> None:
    c = channel(intent())
    m = send("planner", c, "request", to="reviewer").json()["id"]
    is_(send("reviewer", c, "response"), 422)
    got = send("reviewer", c, "response", correlation_id=m)
    is_(got, 201)
    assert (got.json()["correlation_id"], got.json()["to"]) == (m, "planner"), got.text


@rule
def M7_broadcasts_go_to_all() -> None:
    got = send("planner", channel(intent()), "broadcast").json()
    assert got["to"] == "*", got["to"]


@rule
def M9_expired_messages_are_not_delivered() -> None:
    c = channel(intent())
    got = send("planner", c, to="reviewer", expires_at="2020-01-01T00:00:00+00:00")
    is_(got, 201)
    assert got.json()["status"] == "expired", got.json()["status"]
    assert messages("reviewer", c) == [], "it is listed"


@rule
def M10_recipients_alone_mark_as_read() -> None:
    c = channel(intent())
    m = send("planner", c, to="reviewer").json()["id"]
    is_(call("planner", "PATCH", f"/channels/{c}/messages/{m}", {"status": "read"}), 403)


@rule
def M10_read_is_the_only_status() -> None:
    c = channel(intent())
    m = send("planner", c, to="reviewer").json()["id"]
    is_(call("reviewer", "PATCH", f"/channels/{c}/messages/{m}", {"status": "bogus"}), 422)


@rule
def M12_since_a_time() -> None:
    c = channel(intent())
    send("planner", c)
    got = http.get(f"/channels/{c}/messages", params={"since": "2020-01-01T00:00:00+00:00"}, headers={"X-API-Key": key, "X-Agent-ID": "planner"})
    assert len(got.json()) == 1, got.text


@rule
def M12_since_nonsense() -> None:
    c = channel(intent())
    is_(http.get(f"/channels/{c}/messages", params={"since": "garbage"}, headers={"X-API-Key": key, "X-Agent-ID": "planner"}), 400)


@rule
def M13_to_finds_broadcasts() -> None:
    c = channel(intent())
    send("planner", c, "broadcast")
    assert len(messages("reviewer", c, to="reviewer")) == 1, "a broadcast is not among what is for the reviewer"


@rule
def M15_replies_are_pushed() -> None:
    c = channel(intent())
    m = send("planner", c, "request", to="reviewer").json()["id"]
    assert follow("planner", f"/subscribe/channels/{c}", lambda: call("reviewer", "POST", f"/channels/{c}/messages/{m}/reply", {"sender": "reviewer", "payload": {"n": 1}}),
                  lambda text: m in text and "response" in text), "no event"


@rule
def M17_closed_channels_take_nothing() -> None:
    c = channel(intent())
    call("planner", "PATCH", f"/channels/{c}", {"status": "closed"})
    is_(send("planner", c), 409)


@rule
def M18_requests_expire() -> None:
    c = channel(intent())
    m = send("planner", c, "request", to="reviewer", expires_at=time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(time.time() + 1))).json()["id"]
    eventually(lambda: call("planner", "GET", f"/channels/{c}/messages/{m}").json()["status"] == "expired", "the request has expired")
    is_(call("reviewer", "POST", f"/channels/{c}/messages/{m}/reply", {"sender": "reviewer", "payload": {}}), 409)


@rule
def X1_direct_messages_are_private() -> None:
    c = channel(intent())
    send("planner", c, to="reviewer", payload={"secret": 1})
    assert messages("tester", c) == [], "the tester reads it"


@rule
def X1_only_members_are_reached() -> None:
    c = channel(intent(), members=["planner", "reviewer"], member_policy="explicit")
    is_(send("planner", c, to="tester"), 403)


@rule
def X2_roles_reach_their_agents() -> None:
    made("tester-1", "/agents/register", {"agent_id": f"tester-{time.monotonic_ns()}", "role_id": "nothing", "capabilities": []})
    name, role = f"tester-{time.monotonic_ns()}", f"role-{time.monotonic_ns()}"
    made(name, "/agents/register", {"agent_id": name, "role_id": role, "capabilities": []})
    c = channel(intent())
    send("planner", c, "request", to="role:" + role)
    assert len(messages(name, c, to=name)) == 1, "it reaches nobody"


@rule
def X4_access_is_needed() -> None:
    i = intent()
    closed_to(i, "reviewer")
    is_(call("stranger", "GET", f"/intents/{i}"), 403, 404)


@rule
def X4_access_is_needed_to_send() -> None:
    i = intent()
    c = channel(i)
    closed_to(i, "reviewer")
    is_(send("stranger", c), 403, 404)


@rule
def X5_members_alone_take_part() -> None:
    c = channel(intent(), members=["planner", "reviewer"], member_policy="explicit")
    is_(send("stranger", c), 403)
    is_(call("stranger", "GET", f"/channels/{c}/messages"), 403)


@rule
def A1_audited_messages_are_events() -> None:
    i = intent()
    send("planner", channel(i, options={"audit": True}), payload={"n": 1})
    events = call("planner", "GET", f"/intents/{i}/events").json()
    events = events if isinstance(events, list) else events["events"]
    assert [e["actor"] for e in events if e["event_type"] == "channel_message"] == ["planner"], [e["event_type"] for e in events]


@rule
def A1_events_are_filtered_by_type() -> None:
    i = intent()
    made("planner", f"/intents/{i}/events", {"event_type": "comment", "actor": "planner", "payload": {}})
    got = http.get(f"/intents/{i}/events", params={"event_type": "comment"}, headers={"X-API-Key": key, "X-Agent-ID": "planner"}).json()
    got = got if isinstance(got, list) else got["events"]
    assert [e["event_type"] for e in got] == ["comment"], [e["event_type"] for e in got]


@rule
def A3_traces_are_kept() -> None:
    i, trace = intent(), hashlib.md5(b"trace").hexdigest()
    got = made("planner", f"/intents/{i}/events", {"event_type": "comment", "actor": "planner", "payload": {}, "trace_id": trace})
    assert got.get("trace_id") == trace, got


@rule
def A4_the_chain_is_checked() -> None:
    i = intent()
    made("planner", f"/intents/{i}/events", {"event_type": "comment", "actor": "planner", "payload": {}})
    is_(http.get(f"/intents/{i}/events/verify"), 401)  # and not for everybody
    got = call("planner", "GET", f"/intents/{i}/events/verify").json()
    assert got["chain_valid"] and got.get("event_count", got.get("events_checked", got.get("total_events", 0))) > 0, got


@rule
def L1_a_completed_intent_closes_its_channels() -> None:
    i = intent()
    c = channel(i)
    for status in ("active", "completed"):
        version = call("planner", "GET", f"/intents/{i}").json()["version"]
        is_(call("planner", "POST", f"/intents/{i}/status", {"status": status}, **{"If-Match": str(version)}), 200)
    got = call("planner", "GET", f"/channels/{c}").json()["status"]
    assert got == "closed", got
    is_(send("planner", c), 409)


@rule
def L2_a_deregistered_agent_is_no_member() -> None:
    name = f"tester-{time.monotonic_ns()}"
    made(name, "/agents/register", {"agent_id": name, "capabilities": []})
    c = channel(intent(), members=["planner", name], member_policy="explicit")
    is_(call(name, "PATCH", f"/agents/{name}/status", {"status": "deregistered"}), 200)
    assert call("planner", "GET", f"/channels/{c}").json()["members"] == ["planner"], "it still is"
    assert [m["payload"].get("event") for m in messages("planner", c)] == ["agent_departed"], "nobody is told"


@rule
def L2_agents_can_be_deleted() -> None:
    name = f"tester-{time.monotonic_ns()}"
    made(name, "/agents/register", {"agent_id": name, "capabilities": []})
    is_(call(name, "DELETE", f"/agents/{name}"), 200)


@rule
def L3_a_task_closes_its_channel() -> None:
    i = intent()
    task = made("planner", "/tasks", {"intent_id": i, "name": "write"})
    c = channel(i, task_id=task["id"])
    is_(call("planner", "PATCH", f"/tasks/{task['id']}", {"status": "completed"}, **{"If-Match": str(task["version"])}), 200)
    got = call("planner", "GET", f"/channels/{c}").json()["status"]
    assert got == "closed", got


@rule
def D2_intent_streams_show_messages() -> None:
    i = intent()
    c = channel(i)
    assert follow("reviewer", f"/intents/{i}/subscribe", lambda: send("planner", c, payload={"n": 1}), lambda text: "channel_message" in text), "no event"


def follow(agent: str, path: str, act: Callable[[], Any], seen: Callable[[str], bool]) -> bool:
    """Reports whether a stream shows what an act brings about."""
    with httpx.stream("GET", url + "/api/v1" + path, headers={"X-API-Key": key, "X-Agent-ID": agent}, timeout=httpx.Timeout(3, read=3)) as stream:
        assert stream.status_code == 200, f"{stream.status_code}"
        threading.Timer(0.1, act).start()
        text = ""
        try:
            for part in stream.iter_text():
                text += part
                if seen(text):
                    return True
        except httpx.ReadTimeout:
            pass
        return False


@rule
def S2_payloads_are_bounded() -> None:
    is_(send("planner", channel(intent()), payload={"x": "x" * (300 << 10)}), 413)


@rule
def P1_times_can_be_parsed() -> None:
    at = call("planner", "GET", f"/channels/{channel(intent())}").json()["created_at"]
    assert len(at) == len("2026-11-20T14:00:00.000000+00:00") and at.endswith("+00:00"), at


@rule
def P2_errors_are_JSON() -> None:
    for path in ("/nothing", "/channels/nothing", "/portfolios/nothing/subscribe"):
        assert call("planner", "GET", path).headers["content-type"].startswith("application/json"), path


outcome = {}
for name, check in rules.items():
    try:
        check()
        outcome[name] = "ok"
    except Exception as e:  # noqa: BLE001 - whatever it is, the rule does not hold
        outcome[name] = f"{type(e).__name__}: {e}"
print(json.dumps(outcome, indent=1))
