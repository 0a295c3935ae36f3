"""Drives a server with the published SDK, one request after the other. Its argument is the server's URL."""

import sys

from openintent import OpenIntentClient
from openintent.exceptions import ConflictError, LeaseConflictError, NotFoundError, OpenIntentError, ValidationError
from openintent.models import AccessPolicy, AgentStatus, Channel, ChannelMessage, EventType, IntentStatus, MessageStatus, Permission, TaskStatus

url = sys.argv[1]
planner, reviewer = (OpenIntentClient(url, "any", agent) for agent in ("planner", "reviewer"))


def raises(kind, status, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except OpenIntentError as e:
        assert type(e) is kind and e.status_code == status, (type(e), e.status_code, e)
        return e
    raise AssertionError(f"{call.__name__} did not fail")


assert "RFC-0021" in planner.discover()["supported_rfcs"]

intent = planner.create_intent("Research Q1", "all of it", initial_state={"a": 1}, constraints={"rules": ["soon"]})
assert intent.status is IntentStatus.DRAFT and intent.version == 1 and intent.state.data == {"a": 1}
assert planner.get_intent(intent.id) == intent
assert [i.id for i in planner.list_intents()] == [intent.id]
intent = planner.update_state(intent.id, intent.version, {"progress": 0.5})
assert intent.state.data == {"a": 1, "progress": 0.5}
assert raises(ConflictError, 409, planner.update_state, intent.id, 1, {"x": 1}).current_version == 2
intent = planner.set_status(intent.id, intent.version, IntentStatus.ACTIVE)

record = reviewer.register_agent("reviewer", ["go"], role_id="tester", name="R")
assert record.status is AgentStatus.ACTIVE and record.role_id == "tester"
assert reviewer.register_agent("reviewer", ["go"], role_id="tester").version == 2
assert [a.agent_id for a in planner.list_agents(role_id="tester")] == ["reviewer"]
assert planner.get_agent_record("reviewer").capabilities == ["go"]
assert reviewer.agent_heartbeat("reviewer")["status"] == "active"
planner.assign_agent(intent.id, "reviewer")

channel = planner.create_channel(intent.id, "talk", members=["planner", "reviewer"], member_policy="explicit", options={"audit": True})
parsed = Channel.from_dict(channel)
assert parsed.created_by == "planner" and parsed.options.audit and parsed.options.max_messages == 1000
cid = channel["id"]
assert [Channel.from_dict(c).id for c in reviewer.list_channels(intent.id)] == [cid]
assert Channel.from_dict(planner.get_channel(cid)).name == "talk"
raises(ConflictError, 409, planner.create_channel, intent.id, "talk")  # and no LeaseConflictError
raises(NotFoundError, 404, planner.get_channel, "nothing")

request = planner.send_message(cid, "planner", to="reviewer", message_type="request", payload={"question": "which?"}, metadata={"priority": "high"})
assert ChannelMessage.from_dict(request).status is MessageStatus.DELIVERED
seen = reviewer.list_messages(cid, to="reviewer")
assert [m["id"] for m in seen] == [request["id"]]
assert ChannelMessage.from_dict(reviewer.mark_read(cid, request["id"])).read_at
answer = reviewer.reply_to(cid, request["id"], "reviewer", {"answer": "v2.3"})
assert answer["correlation_id"] == request["id"] and answer["to"] == "planner"
assert [m["id"] for m in planner.list_messages(cid, since=request["id"])] == [answer["id"]]
assert planner.get_message(cid, answer["id"])["payload"] == {"answer": "v2.3"}
assert ChannelMessage.from_dict(planner.get_message(cid, request["id"])).status is MessageStatus.READ
planner.send_message(cid, "planner", message_type="broadcast", payload={"status": "starting"})
planner.send_message(cid, "planner", to="role:tester", payload={})
planner.send_message(cid, "planner", to="reviewer", expires_at="2020-01-01T00:00:00Z")
raises(OpenIntentError, 403, planner.send_message, cid, "reviewer", to="planner")
raises(OpenIntentError, 403, planner.send_message, cid, "planner", to="stranger")
raises(OpenIntentError, 422, planner.send_message, cid, "planner", message_type="weird")
raises(ValidationError, 400, planner.list_messages, cid, since="garbage")
raises(OpenIntentError, 403, OpenIntentClient(url, "any", "stranger").list_messages, cid)
raises(OpenIntentError, 403, OpenIntentClient(url, "bound", "reviewer").get_intent, intent.id)
raises(OpenIntentError, 401, OpenIntentClient(url, "unknown", "planner").get_intent, intent.id)

events = planner.get_events(intent.id, event_type=EventType.STATE_PATCHED)
assert [e.actor for e in events] == ["planner"] and events[0].event_hash.startswith("sha256:")
assert planner.log_event(intent.id, EventType.COMMENT, {"text": "so far"}).sequence > 1
assert planner.verify_event_chain(intent.id).valid

assert planner.get_acl(intent.id).default_policy is AccessPolicy.OPEN
entry = planner.grant_access(intent.id, "desk", permission=Permission.WRITE, reason="helps")
planner.revoke_access(intent.id, entry.id)
assert planner.set_acl(intent.id, AccessPolicy.CLOSED, [{"principal_id": "reviewer", "principal_type": "agent", "permission": "write"}]).default_policy is AccessPolicy.CLOSED
raises(NotFoundError, 404, OpenIntentClient(url, "any", "stranger").get_intent, intent.id)

task = planner.create_task(intent.id, "write", priority="high")
scoped = planner.create_channel(intent.id, "writing", task_id=task.id)
assert planner.update_task(task.id, task.version, status="completed").status is TaskStatus.COMPLETED
assert planner.get_channel(scoped["id"])["status"] == "closed"
assert len(planner.list_tasks(intent.id)) == 1 and planner.get_task(task.id).version == 2
lease = planner.create_coordinator_lease("reviewer", intent.id)
assert reviewer.coordinator_heartbeat(lease.id)["version"] == 2 and len(planner.list_coordinator_leases(intent.id)) == 1

raises(NotFoundError, 404, planner.list_portfolios)
raises(NotFoundError, 404, planner.acquire_lease, intent.id, "scope", 60)
assert reviewer.update_agent_status("reviewer", "deregistered")["status"] == "deregistered"
assert planner.get_channel(cid)["members"] == ["planner"]
planner.unassign_agent(intent.id, "reviewer")
intent = planner.set_status(intent.id, planner.get_intent(intent.id).version, IntentStatus.COMPLETED, "done")
raises(ConflictError, 409, planner.send_message, cid, "planner", payload={})
planner.close_channel(cid)
raises(NotFoundError, 404, planner.get_channel, cid)
