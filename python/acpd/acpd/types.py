"""The objects of the local API, as they are on the socket.

Made from docs/local-api.json by go generate ./integration/localapi: do not edit it.
A daemon that is newer than this file may send more fields and other values.
"""

from typing import Any, Literal, NotRequired, TypedDict, Union

AddrSource = Literal["worked", "static", "mdns", "call", "relay", "pipe"]

BindingMode = Literal["mirror", "on-stored"]

DaemonState = Literal["idle", "busy", "overloaded", "draining"]

EventType = Literal["up", "moved", "down", "refused", "discovered", "lost", "pending", "trust", "identity_conflict", "mail", "budget", "approval", "relay", "kept", "missed"]

FileState = Literal["asked", "moving", "paused", "here", "taken"]

JoinRelay = Literal["keep", "skip"]

MailState = Literal["waiting", "delivered", "parked", "arrived"]

MessageDirection = Literal["in", "out"]

Path = Literal["direct", "pipe", "relay"]

PeerState = Literal["connected", "trusted", "discovered", "pending", "blocked"]

ReceiptState = Literal["handed", "held", "sent", "replaced"]

RelayLogin = Literal["nkey", "credentials", "token", "password"]

RelaySource = Literal["config", "kept"]

RelayState = Literal["connecting", "up", "down", "refused", "unused"]

RosterChange = Literal["new", "changed", "unchanged", "self", "refused"]

StepVerdict = Literal["ok", "warning", "failed"]

TaskDirection = Literal["given", "taken"]

TaskState = Literal["sent", "accepted", "unknown", "refused", "completed", "failed", "cancelled", "expired", "kept", "handed", "held", "withdrawn"]


class Ack(TypedDict):
    """Ack answers delegate and cancel."""

    accepted: bool
    estimated_ms: NotRequired[int]
    code: NotRequired[str]  # when not accepted
    message: NotRequired[str]  # when not accepted


class AckParams(TypedDict):
    """AckParams are the params of ack: either ids, or up_to, or ref. If peers are named, ids are of their messages alone. UpTo comes with the filter that inbox was called with. IDs and up_to remove only what inbox has returned before. Ref removes the result or error of a delegation that the caller gave; the caller has it from wait."""

    ids: NotRequired[list[str]]
    up_to: NotRequired[int]  # sequence number, inclusive
    kinds: NotRequired[list[str]]
    peers: NotRequired[list[str]]
    ref: NotRequired[str]  # of a delegation


class Acked(TypedDict):
    """Acked is the result of ack. IDs and not_shown answer an ack by ids."""

    removed: int  # how many messages
    ids: NotRequired[list[str]]  # of the messages that were removed
    not_shown: NotRequired[list[str]]  # of the messages that stay, because the caller was not shown them


class SessionInfo(TypedDict):
    """SessionInfo says which program a session runs in. A notify, result or error for a session goes to the inbox first. Then the daemon calls wake, with which it tells the session of the message."""

    harness: str  # such as claude, codex, opencode
    version: NotRequired[str]  # of the program
    unwakeable: NotRequired[str]  # unwakeable says why nothing can wake the session, in a line for the daemon's owner: "it has no folder ~/.codex here". "": something can wake it.
    asks: NotRequired[str]  # asks is the program, such as Codex, if it asks its user before a tool runs, and waits for the answer. It is empty if nobody is asked.
    folder: NotRequired[str]  # folder identifies the directory of the session: sessions with the same one are in one directory. Begun is when the session began. If a program has several sessions in one directory, a message that names no session goes to the one that began last.
    begun: NotRequired[str]


class Agent(TypedDict):
    """Agent is one attached agent."""

    name: str
    kinds: list[str]
    domains: list[str]
    topics: list[str]
    max_concurrent: int
    active: int  # queries and delegations that it works on
    since: str
    session: NotRequired[SessionInfo]  # of a live session, which answers only while it has a turn
    about: NotRequired[str]  # what it says that it is for


class AgentDetails(TypedDict):
    """AgentDetails says of an agent what it is for, and how it answers the sender of the discover."""

    name: str
    about: NotRequired[str]  # in the agent's own words, at most 120 characters
    answers: str  # now, wakes or turn; a later daemon may have other words


class WokenBy(TypedDict):
    """WokenBy says how often one peer woke a session."""

    peer: str
    name: str
    hour: int
    day: int
    used_up_until: Union[str, None]  # until when its share of turns is used up, as a message of it has shown; null: it is not


class Woken(TypedDict):
    """Woken says how often a session was woken, and by whom."""

    hour: int  # turns in the last hour
    day: int  # turns in the last 24 hours
    by: list[WokenBy]  # the peer that woke it most first
    waiting: int
    approvals: int
    muted_until: Union[str, None]  # null: it is not muted
    refused: NotRequired[str]  # why its program was not given a message in the last minute


class AgentState(TypedDict):
    """AgentState is a row of agents: an attached agent and, if it is a session, who woke it."""

    name: str
    kinds: list[str]
    domains: list[str]
    topics: list[str]
    max_concurrent: int
    active: int  # queries and delegations that it works on
    since: str
    session: NotRequired[SessionInfo]  # of a live session, which answers only while it has a turn
    about: NotRequired[str]  # what it says that it is for
    woken: NotRequired[Woken]


class Agents(TypedDict):
    """Agents is the result of agents, which has no params."""

    agents: list[AgentState]


class Response(TypedDict):
    """Response answers query."""

    data: NotRequired[Any]
    summary: str
    tokens_used: NotRequired[int]
    truncated: NotRequired[bool]


class AnswerParams(TypedDict):
    """The params of answer."""

    ref: str  # the question, or the delegation that it is about
    payload: Response


class Answered(TypedDict):
    """Answered is the result of answer."""

    id: str  # of the question
    delegation: str  # that it is about


class Approval(TypedDict):
    """Approval is a message that waits for the owner's approval before it wakes a session, or that is approved and waits to wake the session. The inbox has the whole text, unless the message is a query or a delegation. A file that waits to be received is one too: it has no agent, its kind is file, and text begins with its name and size."""

    id: str
    agent: str  # the session
    peer: str
    name: str
    kind: str
    message: str
    text: str  # the beginning of what it says, in one line of at most 256 bytes
    since: str
    again: NotRequired[bool]  # it was held before the daemon's last start, so an answer to it is forgotten
    approved: bool  # the owner has approved it, and it waits for its turn
    kept_by: NotRequired[str]  # the bound for which it waits although it is approved
    kept_until: Union[str, None]  # when that has room at the earliest; null: no bound keeps it back


class Approvals(TypedDict):
    """Approvals is the result of approvals, which has no params."""

    approvals: list[Approval]


class ApproveParams(TypedDict):
    """ApproveParams are the params of approvals.decide, whose result is the Approval."""

    id: str
    answer: Literal["yes", "always", "no"]  # yes; always: also all others of this peer and kind; no: also after a yes, while it waits; it declines a query or delegation


class Capabilities(TypedDict):
    """Capabilities answers discover."""

    agent_name: NotRequired[str]
    agents: NotRequired[list[str]]  # names of the attached agents, if the daemon answers for all
    sessions: NotRequired[list[str]]  # those of them, or the one that was asked about, that answer only while they have a turn
    domains: NotRequired[list[str]]
    channels: NotRequired[list[str]]
    tools: NotRequired[list[str]]
    max_concurrent_tasks: NotRequired[int]
    model: NotRequired[str]
    details: NotRequired[list[AgentDetails]]  # of the agents that take queries or delegations, in the order of their names, at most 64


class AttachParams(TypedDict):
    """AttachParams are the params of attach, whose result is Attached. From then on the daemon hands messages for the agent to this connection, and its calls are the agent's."""

    name: str
    kinds: NotRequired[list[str]]  # empty: all that the daemon hands out
    domains: NotRequired[list[str]]  # empty: any
    topics: NotRequired[list[str]]  # empty: any
    capabilities: NotRequired[Capabilities]
    max_concurrent: NotRequired[int]  # queries and delegations at a time; 0: 4
    take_over: NotRequired[bool]  # replace an agent of that name; not in the agents' folder
    key: NotRequired[str]  # what an earlier attach of the name returned; "": the daemon draws one
    session: NotRequired[SessionInfo]  # the agent is a live session, which answers only while it has a turn; absent: it answers by itself
    about: NotRequired[str]  # what it is for, which peers can read: one line of at most 120 characters


class Attached(TypedDict):
    """Attached is the result of attach."""

    key: str  # a secret: with it the agent comes back to its name and to what is its own


class Authority(TypedDict):
    """Authority is an entry of organisation.authorities."""

    name: str
    allow: list[str]  # what its peers may initiate without a rule
    revoked: int  # entries of its file of revocations
    peers: int  # that have a valid certificate of it, and are known


class BudgetRow(TypedDict):
    """BudgetRow is the limit on what peers may hold of one thing, such as memory or rows of the store."""

    name: str
    unit: Literal["", "bytes", "bytes_free"]  # bytes; "" for a plain number; bytes_free: held bytes of the disk are free, and all must be left
    peer: int  # one peer at most; 0: no bound of its own
    all: int  # all together at most; 0: no sum
    held: int  # by all together
    what: str  # is counted, for people
    remedy: NotRequired[str]  # how it is freed, for people; "": it frees itself


class BudgetUsage(TypedDict):
    """BudgetUsage says how much of a row one peer holds."""

    row: str
    peer: str  # all digits 0: strangers, on the link that the name says
    name: str
    held: int
    refused: int  # how often it was refused more, since the daemon's start


class Budget(TypedDict):
    """Budget is the result of budget: the limits on what peers may use of this daemon, and what each uses now."""

    rows: list[BudgetRow]
    usage: list[BudgetUsage]  # row by row, the peer that holds most first; without peers that hold nothing and were refused nothing


class BudgetParams(TypedDict):
    """BudgetParams are the params of budget."""

    peer: NotRequired[str]  # to list only its usage; "" lists that of all


class Cancel(TypedDict):
    """Cancel ends the delegation that the envelope's ref names."""

    reason: NotRequired[str]


class CancelAnswer(TypedDict):
    """The result of cancel."""

    ref: str  # the delegation
    payload: NotRequired[Ack]
    abandoned: NotRequired[str]  # why there is no ack of the peer; the delegation has ended only here; "" with an ack


class CancelParams(TypedDict):
    """The params of cancel."""

    id: NotRequired[str]  # absent: the daemon draws one; the same id again is a repeat
    thread: NotRequired[str]  # conversation; only without parent
    parent: NotRequired[str]  # the message that led to this one: one that the caller was handed, or a delegation that it gave
    guessed: NotRequired[bool]  # guessed says that parent is a guess: whoever calls was not told what led to the call. Nothing ends with a parent that was guessed.
    to: NotRequired[str]  # "": the daemon knows whom the delegation went to
    ref: str  # the delegation
    payload: NotRequired[Cancel]
    abandon: NotRequired[bool]  # abandon ends the delegation only here if the peer sends no ack within 5 s. The daemon repeats the cancel until the peer answers.


class Certificate(TypedDict):
    """Certificate is what an authority says of a key."""

    id: str
    name: str  # as in build-7.corp; without an authority here, as in build-7
    groups: list[str]  # likewise
    authority: NotRequired[str]  # "": none here has signed it
    serial: NotRequired[int]
    key_id: NotRequired[str]  # what the authority wrote for itself
    not_before: Union[str, None]  # null: since ever
    not_after: Union[str, None]  # null: for ever


class CertificateParams(TypedDict):
    """CertificateParams are the params of certificate."""

    file: NotRequired[str]  # the text of a certificate file to look at; "": what this daemon shows


class Certificates(TypedDict):
    """Certificates is the result of certificate."""

    request: str  # the line that an authority signs
    certificate: NotRequired[Certificate]  # may be absent
    problem: NotRequired[str]  # what is wrong with it, or will be soon
    authorities: list[Authority]  # whose certificates are valid here


class Delegate(TypedDict):
    """Delegate hands over a task."""

    task: str
    context: NotRequired[dict[str, Any]]  # an object
    priority: NotRequired[Literal["normal", "urgent"]]  # normal or urgent; "": normal
    report_back: NotRequired[bool]
    deadline_ms: NotRequired[int]  # 0: none
    domain: NotRequired[str]


DelegateAnswer = TypedDict(
    "DelegateAnswer",
    {
        "id": str,  # names the delegation from now on
        "from": str,  # the peer that answered
        "from_agent": NotRequired[str],  # the agent that took or refused it, as the peer claims; "": it names none
        "payload": Ack,
    },
)
"""The result of delegate."""


class DelegateParams(TypedDict):
    """The params of delegate."""

    id: NotRequired[str]  # absent: the daemon draws one; the same id again is a repeat
    thread: NotRequired[str]  # conversation; only without parent
    parent: NotRequired[str]  # the message that led to this one: one that the caller was handed, or a delegation that it gave
    guessed: NotRequired[bool]  # guessed says that parent is a guess: whoever calls was not told what led to the call. Nothing ends with a parent that was guessed.
    to: str
    payload: Delegate
    keep_ms: NotRequired[int]  # as of a query


DiscoverAnswer = TypedDict(
    "DiscoverAnswer",
    {
        "id": str,  # of the message that was sent
        "from": str,  # the peer that answered
        "from_agent": NotRequired[str],  # of a response: the agent that answered, as the peer claims; "": it names none
        "kind": str,  # pong, capabilities or response
        "rtt_us": int,
        "payload": Capabilities,
    },
)
"""The result of discover."""


class DiscoverParams(TypedDict):
    """DiscoverParams are the params of discover."""

    id: NotRequired[str]  # absent: the daemon draws one; the same id again is a repeat
    thread: NotRequired[str]  # conversation; only without parent
    parent: NotRequired[str]  # the message that led to this one: one that the caller was handed, or a delegation that it gave
    guessed: NotRequired[bool]  # guessed says that parent is a guess: whoever calls was not told what led to the call. Nothing ends with a parent that was guessed.
    to: str
    timeout_ms: NotRequired[int]  # 0: 5 s
    fresh: NotRequired[bool]  # ask again, even if an answer is cached


class OpenWork(TypedDict):
    """OpenWork is what somebody here has under way."""

    agent: NotRequired[str]  # an attached agent that works on queries and delegations; "": calls of this daemon's programs to peers, and files on their way
    count: int


class Drain(TypedDict):
    """Drain says of a daemon that drains what is open."""

    until: str  # when the daemon ends, whatever is open then
    open: list[OpenWork]


class DrainParams(TypedDict):
    """DrainParams are the params of drain."""

    timeout_ms: NotRequired[int]  # after which the daemon ends, whatever is open; 0: 10 minutes; up to 24 h


class Drained(TypedDict):
    """Drained is the result of drain. The daemon ends when it has been sent."""

    all_ended: bool
    open: list[OpenWork]  # what was under way when the time was over


Envelope = TypedDict(
    "Envelope",
    {
        "v": int,
        "id": str,
        "from": str,
        "to": str,
        "ts": int,  # the sender's unix milliseconds; advisory
        "kind": str,
        "ref": Union[str, None],  # the message that this one answers
        "payload": dict[str, Any],
        "trace": NotRequired[str],  # W3C traceparent
        "agent": NotRequired[str],  # the attached agent that is meant
        "thread": NotRequired[str],  # conversation; a label, never authority
        "hops": NotRequired[int],  # messages that led to this one
        "from_agent": NotRequired[str],  # the attached agent that sent it; at the receiver a claim of the sender's daemon
    },
)
"""Envelope is one message (protocol, section 4). The same struct is CBOR between daemons and JSON on the local socket. Unknown fields are ignored."""


ErrorData = TypedDict(
    "ErrorData",
    {
        "code": str,
        "message": str,
        "retryable": NotRequired[bool],
        "retry_after_ms": NotRequired[int],
        "details": NotRequired[dict[str, Any]],
        "from": NotRequired[str],  # the peer that raised it; set by the own daemon
        "quoted": NotRequired[str],  # what another program said, such as a command, for a person: at most 200 bytes, on one line; nothing that a peer sends has it
    },
)
"""Error is an error in a form that crosses every boundary: it is the payload of an error envelope, a refused receipt, the data of a JSON-RPC error and the object that acpctl prints. Without from, all of it but quoted has only words of this program. With from, all of it is the peer's words."""


class ErrorParams(TypedDict):
    """The params of error."""

    id: NotRequired[str]  # absent: the daemon draws one; the same id again is a repeat
    thread: NotRequired[str]  # conversation; only without parent
    parent: NotRequired[str]  # the message that led to this one: one that the caller was handed, or a delegation that it gave
    guessed: NotRequired[bool]  # guessed says that parent is a guess: whoever calls was not told what led to the call. Nothing ends with a parent that was guessed.
    ref: str  # the delegation
    payload: ErrorData


class Event(TypedDict):
    """Event is the params of the notification event."""

    type: EventType
    peer: NotRequired[str]
    name: NotRequired[str]
    at: str
    details: NotRequired[dict[str, Any]]


class File(TypedDict):
    """File is a row of files: one that came or comes from a peer, or is being sent to one."""

    id: str
    direction: MessageDirection
    peer: str
    peer_name: str
    agent: NotRequired[str]  # the agent it is for; "": any
    from_agent: NotRequired[str]  # the agent that sent it, as the peer claims
    name: str  # the peer's word: never a path
    size: int
    sha256: str
    text: NotRequired[str]  # the peer's word
    ref: NotRequired[str]
    thread: NotRequired[str]
    state: FileState
    bytes: int  # how many are there
    since: str
    until: NotRequired[str]  # when it is removed; zero while it moves
    taken_by: NotRequired[str]  # the agent


class FileAskParams(TypedDict):
    """FileAskParams are the params of file.ask, whose result is {}: the owner is asked again before files of a peer are taken, after an earlier answer 'always'."""

    peer: str


class FileRemoveParams(TypedDict):
    """FileRemoveParams are the params of file.remove, whose result is the File that was removed."""

    id: str
    peer: NotRequired[str]  # as in FileTakeParams


class FileReport(TypedDict):
    """FileReport is the data of the notify with FileTopic. Name and text are the peer's words."""

    id: str
    name: str
    size: int
    sha256: str
    text: NotRequired[str]
    ref: NotRequired[str]


class FileSent(TypedDict):
    """FileSent is how a file arrived."""

    id: str
    state: ReceiptState  # handed or held: the entry that reports it
    had: NotRequired[bool]  # the receiver had the file already; then handed says that the entry has left the inbox


class FileSendLine(TypedDict):
    """FileSendLine is one line of the daemon to a client that sends a file. Exactly one of state, range, done and error is set."""

    state: NotRequired[FileState]  # asked or moving, with id
    relay: NotRequired[bool]  # with moving: over a relay, at most 1 MiB a second
    id: NotRequired[str]
    range: NotRequired[list[int]]  # offset and length, which the client answers by these bytes
    moved: NotRequired[int]  # with range: how many bytes the receiver has so far
    done: NotRequired[FileSent]  # the end: the receiver has the whole file
    error: NotRequired[ErrorData]  # the end: it has not


class FileSendParams(TypedDict):
    """FileSendParams are the params of file.send. The answer is {}; after it the daemon sends lines, each a FileSendLine, and the client answers each line with a range by exactly so many bytes of the file."""

    id: NotRequired[str]  # absent: the daemon draws one; the same id again is a repeat
    thread: NotRequired[str]  # conversation; only without parent
    parent: NotRequired[str]  # the message that led to this one: one that the caller was handed, or a delegation that it gave
    guessed: NotRequired[bool]  # guessed says that parent is a guess: whoever calls was not told what led to the call. Nothing ends with a parent that was guessed.
    to: str  # the peer
    agent: NotRequired[str]  # the agent there that the file is for; "": any
    name: str  # its last component is what the receiver sees
    size: int  # in bytes
    sha256: str  # 64 hex digits
    text: NotRequired[str]  # what it is, at most 4,096 bytes
    ref: NotRequired[str]  # the delegation or message that the file belongs to
    wait_ms: NotRequired[int]  # how long the receiver's owner has for an answer; 0: 10 minutes; at most 24 h


class FileTakeParams(TypedDict):
    """FileTakeParams are the params of file.take, whose result is the File. After it the connection carries the file's bytes, and ends. An agent gets what is for it or, once, what is for any agent."""

    id: str
    peer: NotRequired[str]  # needed only if two peers sent a file under this id


class Files(TypedDict):
    """Files is the result of files: first what waits for the owner and what is being sent, with the beginnings of their texts, then what came, each the newest first."""

    files: list[File]
    next: NotRequired[int]  # there are more


class FilesParams(TypedDict):
    """FilesParams are the params of files, whose result is Files. An agent sees what is for it or for any agent, and what it sends."""

    id: NotRequired[str]  # absent: all
    peers: NotRequired[list[str]]  # empty: all
    ref: NotRequired[str]  # absent: all; else only files that belong to this message
    after: NotRequired[int]  # next of the answer before
    limit: NotRequired[int]  # of those that came; 0: as many as fit


class HeldMessage(TypedDict):
    """HeldMessage is a message that waits in the inbox, or one that an agent took from it."""

    seq: int
    envelope: Envelope
    agent: NotRequired[str]  # the agent that it is for, or that took it; "": any
    taken_at: NotRequired[str]  # absent: it was not taken
    origin: NotRequired[str]  # daemon: this daemon has made it, as for a file or the end of a message that was kept; "": the peer has sent it


class Result(TypedDict):
    """Result reports on a delegation."""

    status: Literal["completed", "failed", "partial"]  # completed, failed or partial
    outcome: str
    data: NotRequired[Any]
    error: NotRequired[Union[str, None]]  # null on success
    progress: NotRequired[float]  # Of a partial one: how much is done, 0 to 1; absent if that is not known
    message: NotRequired[str]  # what is being done, at most 1 KiB


class Kept(TypedDict):
    """Kept says that a message certainly did not arrive, and that the daemon keeps it and sends it when the peer, or its agent, is there. Client.wait waits for its end."""

    id: str
    until: Union[str, None]
    tries: int  # how often it, or an older one for its recipient, was tried
    last_error: str  # of the last try, in words of the daemon


class QuestionBack(TypedDict):
    """QuestionBack is what the agent that works on a delegation asks the one that delegated. The method answer answers it."""

    id: str
    text: str  # its beginning, in a row of tasks and with other messages
    since: Union[str, None]


class Task(TypedDict):
    """Task is one delegation, or a message that is or was kept: a row of tasks, and the result of task and wait. Only the results carry payloads."""

    id: str
    kind: NotRequired[str]  # of a message that is or was kept: query, delegate or notify; "": a delegation
    peer: str  # petname, or the id if it has no petname any more
    direction: TaskDirection
    from_agent: NotRequired[str]  # taken: the agent that delegated, as the peer claims; peer/from_agent names it in a message to it
    to_agent: NotRequired[str]  # given: the agent of the peer that it is for; "": any
    agent: NotRequired[str]  # taken and accepted: the agent that works on it or, if it is final, that has worked on it
    task: str  # its beginning
    state: TaskState
    over: NotRequired[bool]  # nothing is owed or expected any more: it is final, or accepted and no report is wanted
    began: NotRequired[str]  # null, and left out: the daemon is older than 0.2.0
    deadline: Union[str, None]
    outcome: str  # its beginning; the whole is in result
    partials: NotRequired[int]  # how many have come
    partial: NotRequired[Result]  # payload of the last partial result, until there is result
    result: NotRequired[Union[Result, ErrorData]]  # payload of the final result or error
    progress: NotRequired[float]  # The last partial result, until result is set. how much is done, 0 to 1; absent: none said
    message: NotRequired[str]  # what is being done
    agent_away_since: NotRequired[str]  # Of one with an agent that is not attached: since when, and until when the daemon waits for an agent of that name, before the delegation fails or its deadline has passed. Null, and left out, while one is attached. A restart of the daemon begins anew.
    agent_awaited_until: NotRequired[str]
    kept: NotRequired[Kept]  # absent: it is not kept
    questions: NotRequired[int]  # given: how many the agent that works on it has asked
    question: NotRequired[QuestionBack]  # given: the one that waits for an answer; absent: none does


class WakeGrant(TypedDict):
    """WakeGrant is the daemon's word that a session may be woken for a message. It rests on what the daemon's owner has allowed, and on the bounds of woken turns."""

    unattended: bool  # also if nobody is there to be asked for permissions
    test: NotRequired[bool]  # its owner tries whether it can be woken: there is no message


Inbound = TypedDict(
    "Inbound",
    {
        "v": int,
        "id": str,
        "from": str,
        "to": str,
        "ts": int,  # the sender's unix milliseconds; advisory
        "kind": str,
        "ref": Union[str, None],  # the message that this one answers
        "payload": dict[str, Any],
        "trace": NotRequired[str],  # W3C traceparent
        "agent": NotRequired[str],  # the attached agent that is meant
        "thread": NotRequired[str],  # conversation; a label, never authority
        "hops": NotRequired[int],  # messages that led to this one
        "from_agent": NotRequired[str],  # the attached agent that sent it; at the receiver a claim of the sender's daemon
        "name": str,  # the sender's petname here
        "deadline_ms": NotRequired[int],  # what is left of it; 0: none
        "delegation": NotRequired[Task],  # with result, error and cancel, and with a query that is a question back: the delegation it belongs to
        "wake": NotRequired[WakeGrant],  # wake is set only in the params of wake, and only for sessions: the session may be woken for the message. If it is absent, the message waits for the next tool call of the session.
    },
)
"""Inbound is the params of every request that the daemon makes to an attached agent: the whole envelope and what the daemon knows of it. The agent answers query with the payload of a response, delegate and cancel with that of an ack, and notify, result and error with {}, by which it confirms that it has the message."""


InboundCancel = TypedDict(
    "InboundCancel",
    {
        "v": int,
        "id": str,
        "from": str,
        "to": str,
        "ts": int,  # the sender's unix milliseconds; advisory
        "kind": str,
        "ref": Union[str, None],  # the message that this one answers
        "payload": Cancel,
        "trace": NotRequired[str],  # W3C traceparent
        "agent": NotRequired[str],  # the attached agent that is meant
        "thread": NotRequired[str],  # conversation; a label, never authority
        "hops": NotRequired[int],  # messages that led to this one
        "from_agent": NotRequired[str],  # the attached agent that sent it; at the receiver a claim of the sender's daemon
        "name": str,  # the sender's petname here
        "deadline_ms": NotRequired[int],  # what is left of it; 0: none
        "delegation": NotRequired[Task],  # with result, error and cancel, and with a query that is a question back: the delegation it belongs to
        "wake": NotRequired[WakeGrant],  # wake is set only in the params of wake, and only for sessions: the session may be woken for the message. If it is absent, the message waits for the next tool call of the session.
    },
)
"""What the daemon sends to an agent with cancel."""


InboundDelegate = TypedDict(
    "InboundDelegate",
    {
        "v": int,
        "id": str,
        "from": str,
        "to": str,
        "ts": int,  # the sender's unix milliseconds; advisory
        "kind": str,
        "ref": Union[str, None],  # the message that this one answers
        "payload": Delegate,
        "trace": NotRequired[str],  # W3C traceparent
        "agent": NotRequired[str],  # the attached agent that is meant
        "thread": NotRequired[str],  # conversation; a label, never authority
        "hops": NotRequired[int],  # messages that led to this one
        "from_agent": NotRequired[str],  # the attached agent that sent it; at the receiver a claim of the sender's daemon
        "name": str,  # the sender's petname here
        "deadline_ms": NotRequired[int],  # what is left of it; 0: none
        "delegation": NotRequired[Task],  # with result, error and cancel, and with a query that is a question back: the delegation it belongs to
        "wake": NotRequired[WakeGrant],  # wake is set only in the params of wake, and only for sessions: the session may be woken for the message. If it is absent, the message waits for the next tool call of the session.
    },
)
"""What the daemon sends to an agent with delegate."""


InboundError = TypedDict(
    "InboundError",
    {
        "v": int,
        "id": str,
        "from": str,
        "to": str,
        "ts": int,  # the sender's unix milliseconds; advisory
        "kind": str,
        "ref": Union[str, None],  # the message that this one answers
        "payload": ErrorData,
        "trace": NotRequired[str],  # W3C traceparent
        "agent": NotRequired[str],  # the attached agent that is meant
        "thread": NotRequired[str],  # conversation; a label, never authority
        "hops": NotRequired[int],  # messages that led to this one
        "from_agent": NotRequired[str],  # the attached agent that sent it; at the receiver a claim of the sender's daemon
        "name": str,  # the sender's petname here
        "deadline_ms": NotRequired[int],  # what is left of it; 0: none
        "delegation": NotRequired[Task],  # with result, error and cancel, and with a query that is a question back: the delegation it belongs to
        "wake": NotRequired[WakeGrant],  # wake is set only in the params of wake, and only for sessions: the session may be woken for the message. If it is absent, the message waits for the next tool call of the session.
    },
)
"""What the daemon sends to an agent with error."""


class Notify(TypedDict):
    """Notify tells agents of something that concerns a topic."""

    topic: str
    data: NotRequired[Any]
    importance: NotRequired[Literal["low", "medium", "high"]]  # low, medium or high; "": low


InboundNotify = TypedDict(
    "InboundNotify",
    {
        "v": int,
        "id": str,
        "from": str,
        "to": str,
        "ts": int,  # the sender's unix milliseconds; advisory
        "kind": str,
        "ref": Union[str, None],  # the message that this one answers
        "payload": Notify,
        "trace": NotRequired[str],  # W3C traceparent
        "agent": NotRequired[str],  # the attached agent that is meant
        "thread": NotRequired[str],  # conversation; a label, never authority
        "hops": NotRequired[int],  # messages that led to this one
        "from_agent": NotRequired[str],  # the attached agent that sent it; at the receiver a claim of the sender's daemon
        "name": str,  # the sender's petname here
        "deadline_ms": NotRequired[int],  # what is left of it; 0: none
        "delegation": NotRequired[Task],  # with result, error and cancel, and with a query that is a question back: the delegation it belongs to
        "wake": NotRequired[WakeGrant],  # wake is set only in the params of wake, and only for sessions: the session may be woken for the message. If it is absent, the message waits for the next tool call of the session.
    },
)
"""What the daemon sends to an agent with notify."""


class Query(TypedDict):
    """Query asks a question."""

    question: str
    domain: NotRequired[str]
    max_tokens: NotRequired[int]  # 0: no limit
    deadline_ms: NotRequired[int]  # 0: 30,000


InboundQuery = TypedDict(
    "InboundQuery",
    {
        "v": int,
        "id": str,
        "from": str,
        "to": str,
        "ts": int,  # the sender's unix milliseconds; advisory
        "kind": str,
        "ref": Union[str, None],  # the message that this one answers
        "payload": Query,
        "trace": NotRequired[str],  # W3C traceparent
        "agent": NotRequired[str],  # the attached agent that is meant
        "thread": NotRequired[str],  # conversation; a label, never authority
        "hops": NotRequired[int],  # messages that led to this one
        "from_agent": NotRequired[str],  # the attached agent that sent it; at the receiver a claim of the sender's daemon
        "name": str,  # the sender's petname here
        "deadline_ms": NotRequired[int],  # what is left of it; 0: none
        "delegation": NotRequired[Task],  # with result, error and cancel, and with a query that is a question back: the delegation it belongs to
        "wake": NotRequired[WakeGrant],  # wake is set only in the params of wake, and only for sessions: the session may be woken for the message. If it is absent, the message waits for the next tool call of the session.
    },
)
"""What the daemon sends to an agent with query."""


InboundResult = TypedDict(
    "InboundResult",
    {
        "v": int,
        "id": str,
        "from": str,
        "to": str,
        "ts": int,  # the sender's unix milliseconds; advisory
        "kind": str,
        "ref": Union[str, None],  # the message that this one answers
        "payload": Result,
        "trace": NotRequired[str],  # W3C traceparent
        "agent": NotRequired[str],  # the attached agent that is meant
        "thread": NotRequired[str],  # conversation; a label, never authority
        "hops": NotRequired[int],  # messages that led to this one
        "from_agent": NotRequired[str],  # the attached agent that sent it; at the receiver a claim of the sender's daemon
        "name": str,  # the sender's petname here
        "deadline_ms": NotRequired[int],  # what is left of it; 0: none
        "delegation": NotRequired[Task],  # with result, error and cancel, and with a query that is a question back: the delegation it belongs to
        "wake": NotRequired[WakeGrant],  # wake is set only in the params of wake, and only for sessions: the session may be woken for the message. If it is absent, the message waits for the next tool call of the session.
    },
)
"""What the daemon sends to an agent with result."""


class Inbox(TypedDict):
    """Inbox is the result of inbox."""

    messages: list[HeldMessage]
    next: int  # the after that continues; 0: there is no more


class InboxParams(TypedDict):
    """InboxParams are the params of inbox. Empty filters match everything."""

    limit: NotRequired[int]  # 0: the daemon's default
    after: NotRequired[int]  # only what has a higher sequence number
    kinds: NotRequired[list[str]]
    peers: NotRequired[list[str]]
    ids: NotRequired[list[str]]
    peek: NotRequired[bool]  # ack may remove what is returned only when shown has named it
    taken: NotRequired[bool]  # instead, messages for any agent that agents have acknowledged in the last 7 days


class Invitation(TypedDict):
    """Invitation is the result of invite."""

    uri: str  # a secret until it expires
    expires: str
    id: str  # names it to revoke; not a secret
    relays: NotRequired[list[str]]  # URLs of relays that it names, without secrets
    shared: NotRequired[list[str]]  # of these, those whose token is in it: that cannot be taken back


class NamedPeer(TypedDict):
    """NamedPeer is the result of join and trust: the peer that is trusted now."""

    id: str
    name: str
    warning: NotRequired[str]  # of trust: settings that name the peer by its name meant another key before; of join: a relay that was kept cannot be used yet; of both: what the peer calls itself is kept from claims
    kept: NotRequired[list[str]]  # of join: names of the relays that it has kept, or whose new token


class OpenInvitation(TypedDict):
    """OpenInvitation is a row of invitations."""

    id: str
    expires: str
    name: NotRequired[str]  # what the joiner will be called here; "": what it calls itself
    used_by: NotRequired[NamedPeer]  # who has used an invitation for one daemon, and can use it again; absent if nobody has
    uses: int  # how many daemons can join by it
    left: int  # how many still can
    joined: NotRequired[list[NamedPeer]]  # those that have, and may repeat it


class Invitations(TypedDict):
    """Invitations is the result of invitations, which has no params."""

    invitations: list[OpenInvitation]


class InviteParams(TypedDict):
    """InviteParams are the params of invite."""

    expires_secs: NotRequired[int]  # 0: 10 minutes; up to 24 h
    name: NotRequired[str]  # what the joiner will be called here, a second one with -2; "": what it calls itself
    uses: NotRequired[int]  # how many daemons can join by it, up to 64; 0: one
    no_relay: NotRequired[bool]  # name no relay, and write the longer form that acpd 0.1.0 reads
    with_credential: NotRequired[bool]  # give the tokens of relays away that are marked for it


class JoinParams(TypedDict):
    """JoinParams are the params of join."""

    uri: str
    relay: NotRequired[JoinRelay]  # what becomes of relays in it that the daemon does not use, and of tokens for kept ones that refuse it; "": the call is invalid if there are any of the former, and does without the latter


class Message(TypedDict):
    """Message is the params of the notification message: a copy for a subscriber."""

    envelope: Envelope
    direction: MessageDirection


MessageCount = TypedDict(
    "MessageCount",
    {
        "in": dict[str, int],
        "out": dict[str, int],
    },
)
"""MessageCount is how many messages of a kind passed since the daemon's start."""


class MuteAgentParams(TypedDict):
    """MuteAgentParams are the params of agents.mute, whose result is Muted."""

    name: str
    secs: int  # for how long nothing wakes it, at most 30 days; 0: it may be woken again


class Muted(TypedDict):
    """Muted is the result of agents.mute."""

    name: str
    until: Union[str, None]  # null: it is not muted


class NotifyParams(TypedDict):
    """The params of notify."""

    id: NotRequired[str]  # absent: the daemon draws one; the same id again is a repeat
    thread: NotRequired[str]  # conversation; only without parent
    parent: NotRequired[str]  # the message that led to this one: one that the caller was handed, or a delegation that it gave
    guessed: NotRequired[bool]  # guessed says that parent is a guess: whoever calls was not told what led to the call. Nothing ends with a parent that was guessed.
    to: Union[str, list[str]]
    payload: Notify
    wait: NotRequired[bool]  # absent: true; false: do not wait for the receipt
    keep_ms: NotRequired[int]  # as of a query


class OACPBindParams(TypedDict):
    """OACPBindParams are the params of oacp.bind: from now on the agent lives at the peer, and its mail goes there."""

    project: str
    agent: str
    peer: str
    mode: NotRequired[BindingMode]  # "": mirror
    linger_secs: NotRequired[int]  # with on-stored; 0: the daemon's default
    take: NotRequired[bool]  # bind also an agent that has sent from here, and has moved


class OACPBinding(TypedDict):
    """OACPBinding is the result of oacp.bind and oacp.unbind, and a row of oacp.bindings."""

    project: str
    agent: str
    peer: str  # petname, or the id if it has no petname any more
    mode: BindingMode
    linger_secs: int


class OACPTwin(TypedDict):
    """OACPTwin is an agent that lives here and, as a connected peer claims, there too."""

    project: str
    agent: str
    peer: str  # a name, or an id


class OACPBindings(TypedDict):
    """OACPBindings is the result of oacp.bindings."""

    bindings: list[OACPBinding]
    twins: NotRequired[list[OACPTwin]]
    home: NotRequired[str]  # as in OACPQueue


class OACPBindingsParams(TypedDict):
    """OACPBindingsParams are the params of oacp.bindings."""

    project: NotRequired[str]  # "": all


class OACPDropParams(TypedDict):
    """OACPDropParams are the params of oacp.drop: the file goes from the inbox of a bound agent into its dead_letter folder."""

    project: str
    agent: str
    file: str


class OACPDropped(TypedDict):
    """OACPDropped is the result of oacp.drop."""

    path: str  # where the file is now, below the OACP home


class OACPQueued(TypedDict):
    """OACPQueued is one file in the inbox of a bound agent."""

    project: str
    agent: str
    peer: str  # as in OACPBinding
    file: str
    sha256: str  # "": it was not read
    size: int
    state: MailState
    reason: str  # "": there is nothing to say
    since: str  # when it was delivered; before that, when it was last changed


class OACPQueue(TypedDict):
    """OACPQueue is the result of oacp.queue: what is in the inboxes of bound agents."""

    entries: list[OACPQueued]
    next: str  # the after that continues; "": there is no more
    home: NotRequired[str]  # of the mailboxes whose mail the daemon carries, absolute


class OACPQueueParams(TypedDict):
    """OACPQueueParams are the params of oacp.queue."""

    project: NotRequired[str]  # "": all
    after: NotRequired[str]  # next of the answer that this one continues
    agent: NotRequired[str]  # With the project, these two ask for one file: also for one that is gone, or whose agent is bound no more, if it was delivered.
    file: NotRequired[str]


class OACPUnbindParams(TypedDict):
    """OACPUnbindParams are the params of oacp.unbind: the agent lives here again."""

    project: str
    agent: str


class OwnerNotify(TypedDict):
    """OwnerNotify is the command that tells the owner what waits for him."""

    command: list[str]  # may be empty
    source: str  # wake.yaml, which wake.notify writes, or config.yaml; "" without a command
    failed: NotRequired[str]  # how it failed when it was tried; "" if it did not


class OwnerNotifyParams(TypedDict):
    """OwnerNotifyParams are the params of wake.notify, whose result is OwnerNotify."""

    set: NotRequired[bool]  # command is to be the command from now on
    command: NotRequired[list[str]]  # argument by argument, since no shell reads it; may be empty
    test: NotRequired[bool]  # it is started, with test as ACP_EVENT


class Peer(TypedDict):
    """Peer is one row of peers."""

    id: str
    name: str  # petname; trusted peers have one, and blocked ones that had
    state: PeerState
    addrs: list[str]
    rtt_us: Union[int, None]  # null: not connected
    path: NotRequired[Path]  # "": not connected
    source: AddrSource  # where the first address comes from; "" without an address
    last_seen: Union[str, None]
    claim: NotRequired[str]  # what it calls itself: no proof
    name_conflict: NotRequired[bool]  # the claim is a trusted peer's name
    software: NotRequired[str]  # of a connected one, the name and version of its program: no proof
    pinned: NotRequired[bool]  # a trusted one must show the post-quantum key that it showed first
    refuses: NotRequired[bool]  # a trusted one has said that it does not trust this daemon, and was not connected since
    certificate: NotRequired[Certificate]  # of a peer that the owner does not trust, and an authority vouches for; else absent


class Peers(TypedDict):
    """Peers is the result of peers, which has no params."""

    peers: list[Peer]


class PendingPeer(TypedDict):
    """PendingPeer is a stranger that called and proved its key."""

    id: str
    claim: str  # what it calls itself: no proof
    addr: str  # from which it called
    since: str
    name_conflict: NotRequired[bool]  # the claim is a trusted peer's name
    pq: NotRequired[str]  # hash of its post-quantum key


class Pending(TypedDict):
    """Pending is the result of pending, which has no params."""

    pending: list[PendingPeer]


class Pong(TypedDict):
    """Pong answers ping."""

    status: Literal["idle", "busy", "overloaded"]  # idle, busy or overloaded
    uptime_secs: int
    active_tasks: int
    agent_name: NotRequired[str]
    attached: NotRequired[int]  # number of attached agents


PingAnswer = TypedDict(
    "PingAnswer",
    {
        "id": str,  # of the message that was sent
        "from": str,  # the peer that answered
        "from_agent": NotRequired[str],  # of a response: the agent that answered, as the peer claims; "": it names none
        "kind": str,  # pong, capabilities or response
        "rtt_us": int,
        "payload": Pong,
        "ts": NotRequired[int],  # the peer's clock when it answered, in unix milliseconds: no proof; 0: the daemon does not say
    },
)
"""The result of ping."""


class PingParams(TypedDict):
    """PingParams are the params of ping."""

    id: NotRequired[str]  # absent: the daemon draws one; the same id again is a repeat
    thread: NotRequired[str]  # conversation; only without parent
    parent: NotRequired[str]  # the message that led to this one: one that the caller was handed, or a delegation that it gave
    guessed: NotRequired[bool]  # guessed says that parent is a guess: whoever calls was not told what led to the call. Nothing ends with a parent that was guessed.
    to: str
    timeout_ms: NotRequired[int]  # 0: 5 s


class PolicyRate(TypedDict):
    """PolicyRate is an entry of limits.rate, and what is left of it for a peer."""

    key: str  # in config.yaml, as in limits.rate0
    line: int  # of it there
    peer: str  # as in config.yaml
    kind: str  # as in config.yaml: "*" counts all kinds together
    per_second: float
    burst: int
    left: int  # messages that the peer may send at once now


class Policy(TypedDict):
    """Policy is the result of policy."""

    allowed: bool
    rule: str  # the rule that decides, and why
    key: NotRequired[str]  # of the rule in config.yaml, as in policy.laptop; "": no rule decides
    line: NotRequired[int]  # of it there
    place: NotRequired[int]  # of it among the rules of policy, in the order of the file
    rules: NotRequired[int]
    rate: NotRequired[PolicyRate]  # that applies to the message; may be absent


class PolicyParams(TypedDict):
    """PolicyParams are the params of policy: whether the configuration allows peer to send a message of kind that names domain, or none."""

    peer: str
    kind: str
    domain: NotRequired[str]


class ProbedAddr(TypedDict):
    """ProbedAddr says what answers at one address."""

    addr: str  # host:port
    source: AddrSource
    rtt_us: NotRequired[int]  # that of a handshake, in which the peer has proved its key; 0: it has not
    error: NotRequired[ErrorData]  # why it has not


class Probe(TypedDict):
    """Probe is the result of probe: what answers at the addresses at which a trusted peer may be, those that peers lists. No message goes there."""

    addrs: list[ProbedAddr]


class ProbeParams(TypedDict):
    """ProbeParams are the params of probe."""

    peer: str  # a trusted one


class Process(TypedDict):
    """Process is what the daemon's process uses of its machine. 0 means that the system does not report it."""

    pid: int
    goroutines: int
    heap_bytes: int  # of live objects, and of dead ones that are not swept yet
    descriptors: int  # that are open
    max_descriptors: int
    udp_receive_bytes: int  # that the system keeps for the UDP socket until they are read
    udp_send_bytes: int  # that it keeps until they are sent


QueryAnswer = TypedDict(
    "QueryAnswer",
    {
        "id": str,  # of the message that was sent
        "from": str,  # the peer that answered
        "from_agent": NotRequired[str],  # of a response: the agent that answered, as the peer claims; "": it names none
        "kind": str,  # pong, capabilities or response
        "rtt_us": int,
        "payload": Response,
    },
)
"""The result of query."""


class QueryParams(TypedDict):
    """The params of query."""

    id: NotRequired[str]  # absent: the daemon draws one; the same id again is a repeat
    thread: NotRequired[str]  # conversation; only without parent
    parent: NotRequired[str]  # the message that led to this one: one that the caller was handed, or a delegation that it gave
    guessed: NotRequired[bool]  # guessed says that parent is a guess: whoever calls was not told what led to the call. Nothing ends with a parent that was guessed.
    to: NotRequired[str]  # "" only with ref: the daemon knows who delegated
    ref: NotRequired[str]  # the delegation; absent: the query is about none
    payload: Query
    keep_ms: NotRequired[int]  # for how long the daemon keeps the query if it does not arrive, at most MaxKeep; 0: not at all


class Receipt(TypedDict):
    """Receipt is the result of notify, result and error. A notify to a list is answered by a list of them in its order, each with to, id and either a state or an error."""

    to: NotRequired[str]
    id: NotRequired[str]
    state: NotRequired[ReceiptState]
    error: NotRequired[ErrorData]


class Relay(TypedDict):
    """Relay is a row of relay.list, and of status."""

    name: str
    url: str  # without secrets
    source: RelaySource
    login: RelayLogin
    share: NotRequired[bool]  # invite may give its token away
    state: RelayState
    since: Union[str, None]  # when the state began; null: it is unused
    server: NotRequired[str]  # what the server that it is, or was, connected to says that it is
    rtt_us: NotRequired[int]  # to the server and back; 0: not known
    error: NotRequired[str]  # why it is not up, or what went wrong last, and what to do
    packets_in: int  # since the daemon uses it
    packets_out: int
    dropped: int  # packets, in both directions
    clone: NotRequired[bool]  # another process uses it with this daemon's identity


class RelayAddParams(TypedDict):
    """RelayAddParams are the params of relay.add. Of credentials, token, and user with password one may be given; without them the daemon logs in with its nkey."""

    url: str
    name: NotRequired[str]  # "": its host, with hyphens
    credentials: NotRequired[str]  # the absolute path of a file of NATS credentials, which the daemon reads at each login
    token: NotRequired[str]
    user: NotRequired[str]
    password: NotRequired[str]
    share: NotRequired[bool]  # invite may give the token away
    no_check: NotRequired[bool]  # keep it untried


class RelayStep(TypedDict):
    """RelayStep is one thing that was tried."""

    step: str  # connect, round_trip, receive, publish, nobody, name, foreign_subscribe, max_payload or nat
    verdict: StepVerdict
    what: str  # was found
    remedy: NotRequired[str]  # what to do; "": nothing, or what ends with it
    took_us: NotRequired[int]


class RelayAdded(TypedDict):
    """RelayAdded is the result of relay.add."""

    relay: Relay
    steps: NotRequired[list[RelayStep]]  # what was tried; absent: nothing was


class RelayCheck(TypedDict):
    """RelayCheck says what came of trying a relay."""

    name: str
    url: str
    steps: list[RelayStep]
    error: NotRequired[ErrorData]  # why it cannot be used, and what to do; absent: it can


class RelayChecks(TypedDict):
    """RelayChecks is the result of relay.test."""

    checks: list[RelayCheck]


class RelayNkey(TypedDict):
    """RelayNkey is the result of relay.nkey, which has no params."""

    nkey: str  # the public half of the daemon's nkey, for the configuration of a server


class RelayRemoveParams(TypedDict):
    """RelayRemoveParams are the params of relay.remove."""

    name: str


class RelayTestParams(TypedDict):
    """RelayTestParams are the params of relay.test."""

    name: NotRequired[str]  # "": every relay


class Relays(TypedDict):
    """Relays is the result of relay.list, which has no params."""

    relays: list[Relay]


SettingChange = TypedDict(
    "SettingChange",
    {
        "setting": str,  # as in policy.laptop
        "from": str,  # the value on one line, at most 260 bytes; "none" for an entry that is not there, "default" for a value that is not set
        "to": str,  # the same
        "deferred": NotRequired[bool],  # it takes effect at the next start
    },
)
"""SettingChange is a setting, or an entry of a setting, that has changed."""


class Reloaded(TypedDict):
    """Reloaded is the result of reload, which has no params: config.yaml was read, and is in effect."""

    changed: list[SettingChange]  # against what counted before, in the order of acpd --settings; then the certificate and the revocations whose files have changed
    deferred: list[str]  # settings that differ from those of the start, and take effect at the next one
    warnings: list[str]  # names that nobody who is trusted has; what is wrong with the certificate of the daemon


class ReserveParams(TypedDict):
    """ReserveParams are the params of budget.reserve: a run is to begin, for a query or delegation on which the caller works. What it may cost at most is spent from then on."""

    profile: str
    peer: str  # that sent the query or delegation, and to whose day the run belongs
    ref: str  # the query or delegation
    max_cost: NotRequired[float]  # in US dollars; 0: the agent program names no cost
    max_tokens: NotRequired[int]  # 0: not bounded beforehand


class Reserved(TypedDict):
    """Reserved is the result of budget.reserve."""

    id: str  # for budget.settle
    trust: str  # trust is another text after the peer was untrusted: whoever keeps conversations of the peer ends them then.


class ResultParams(TypedDict):
    """The params of result."""

    id: NotRequired[str]  # absent: the daemon draws one; the same id again is a repeat
    thread: NotRequired[str]  # conversation; only without parent
    parent: NotRequired[str]  # the message that led to this one: one that the caller was handed, or a delegation that it gave
    guessed: NotRequired[bool]  # guessed says that parent is a guess: whoever calls was not told what led to the call. Nothing ends with a parent that was guessed.
    ref: str  # the delegation
    payload: Result


class RevokeParams(TypedDict):
    """RevokeParams are the params of revoke: either id, or all."""

    id: NotRequired[str]
    all: NotRequired[bool]


class Revoked(TypedDict):
    """Revoked is the result of revoke."""

    revoked: int  # how many invitations


class RosterEntry(TypedDict):
    """RosterEntry is a machine that is to be trusted."""

    id: str
    name: str  # what it will be called here
    addrs: NotRequired[list[str]]  # host:port, instead of those it had; absent leaves them, empty leaves none
    relays: NotRequired[list[str]]  # relays are the URLs of relays at which it is, at most 2. The daemon adds none: a relay wants a login.


class RosterPeer(TypedDict):
    """RosterPeer says what becomes of one entry."""

    id: str
    name: str  # afterwards
    addrs: list[str]  # that it was given, afterwards
    change: RosterChange
    was: NotRequired[RosterEntry]  # of a changed one: before
    problem: NotRequired[str]  # of a refused one: what is in its way, and what to do
    warning: NotRequired[str]  # as of trust; of applied ones


class Roster(TypedDict):
    """Roster is the result of trust.roster."""

    peers: list[RosterPeer]  # one for each entry, in their order
    applied: bool  # all of them are trusted now; else nothing has changed
    relays: NotRequired[list[str]]  # relays are at most 8 that entries name and this daemon does not use; relay.add adds one.


class RosterParams(TypedDict):
    """RosterParams are the params of trust.roster: 1 to 1024 peers."""

    peers: list[RosterEntry]
    apply: NotRequired[bool]  # false: only say what would change


class SessionState(TypedDict):
    """SessionState is the result of session, which has no params and is for an agent that has attached, or a connection that speaks as one."""

    unread: int  # messages in the inbox that are for this agent or for any, counted up to 99
    shown: int  # of these, messages that the agent was shown
    notices: list[str]  # what the daemon's owner should know of this session, one line each


class SettleParams(TypedDict):
    """SettleParams are the params of budget.settle, whose result is {}: from then on the real cost of the run replaces what was reserved. A run that is never settled has cost what was reserved."""

    id: str
    cost: NotRequired[float]  # in US dollars
    tokens: NotRequired[int]
    not_begun: NotRequired[bool]  # the run has not begun: all that was reserved is given back, and the run is not recorded


class ShownParams(TypedDict):
    """ShownParams are the params of shown: what the caller was returned with peek, and has shown or dealt with."""

    seqs: list[int]  # sequence numbers, at most 1,000; those that the caller's inbox lacks are ignored


class SpeakParams(TypedDict):
    """SpeakParams are the params of speak, whose result is {}: from then on this connection calls as the agent of that name, and answers nothing."""

    name: str
    key: str  # what its attach returned


class SpentRow(TypedDict):
    """SpentRow says what runs of one profile for one peer have cost on one day."""

    day: str  # 2006-01-02, local to the daemon
    peer: str
    name: str
    profile: str
    runs: int
    tokens: int
    cost: float  # in US dollars


class SpentLimits(TypedDict):
    """SpentLimits are the bounds of a day, which follow from spending in config.yaml."""

    runs: int  # of one peer
    tokens: int  # of one peer
    cost: float  # of one peer, in US dollars
    cost_all: float  # of all peers together
    until: str  # when the next day begins


class Spent(TypedDict):
    """Spent is the result of budget.spent."""

    rows: list[SpentRow]  # the newest day first, then by peer and profile
    limits: SpentLimits


class SpentParams(TypedDict):
    """SpentParams are the params of budget.spent."""

    days: NotRequired[int]  # how many days back, today among them; 0 means only today; at most 31


class StateCopy(TypedDict):
    """StateCopy is the result of backup."""

    path: str  # of the copy, in the state directory; it lasts as long as the connection
    bytes: int  # of the copy
    schema: int  # the version of its tables
    program: str  # the version of the daemon


class Status(TypedDict):
    """Status is the result of status, which has no params."""

    id: str
    name: str
    version: str
    uptime_secs: int
    listen: list[str]  # host:port
    hides_addrs: NotRequired[bool]  # peers get none of listen: reach.direct is off, and there is a relay
    home: str
    state: DaemonState
    peers_connected: int
    agents: list[Agent]
    tasks_active: int  # queries and delegations on which agents here work
    tasks_given: int  # delegations given that are not over
    tasks_taken: int  # delegations taken that are not over
    questions_open: int  # delegations given whose agent waits for an answer
    messages: MessageCount
    relays: list[Relay]
    warnings: list[str]  # for the daemon's owner: what is wrong, and what to do
    ready: bool  # it does its work: see unready
    unready: list[str]  # what keeps it from its work, and what to do; [] if it is ready
    drain: NotRequired[Drain]  # while it drains; absent: it takes new work, or ends already
    process: Process


class SubscribeParams(TypedDict):
    """SubscribeParams are the params of subscribe, whose result is {}. Empty filters match everything."""

    kinds: NotRequired[list[str]]
    topics: NotRequired[list[str]]
    peers: NotRequired[list[str]]
    events: NotRequired[Union[bool, list[EventType]]]


class TaskParams(TypedDict):
    """TaskParams are the params of task."""

    id: str


class Tasks(TypedDict):
    """Tasks is the result of tasks, the newest first."""

    tasks: list[Task]
    next: int  # the after that continues; 0: there is no more


class TasksParams(TypedDict):
    """TasksParams are the params of tasks."""

    limit: NotRequired[int]  # 0: the daemon's default
    after: NotRequired[int]  # next of the answer that this one continues


class TrafficEntry(TypedDict):
    """TrafficEntry is one message that has passed the daemon, with what became of it; or in TrafficAnswer.open a call that has no outcome yet."""

    seq: NotRequired[int]  # 0: the call is open
    at: str  # when it began
    direction: MessageDirection
    peer: str  # who sent it, or to whom it went
    name: str  # petname of the peer; "" if it has no petname any more
    agent: NotRequired[str]  # the agent that it is for; in: the one that was chosen, if that is known
    from_agent: NotRequired[str]  # the agent that sent it; in: a claim of the peer's daemon
    kind: str
    id: str
    ref: NotRequired[str]
    thread: NotRequired[str]
    hops: NotRequired[int]  # of an open call: messages that led to it; in: as the sender says
    parent: NotRequired[str]  # out: the message that led to it, as the caller has named it
    guessed: NotRequired[bool]  # parent is a guess of the caller's
    chain: NotRequired[str]  # name of the chain that it belongs to, 32 hex digits, the same at each daemon; in: as the sender says
    topic: NotRequired[str]
    text: str  # the beginning of what it says, on one line, without what a terminal would obey
    answer: NotRequired[str]  # likewise of its reply, or of the error that it ended with
    bytes: int  # of the payload
    outcome: str  # ok, handed, held, sent or refused, or the code of the error; "": it is open
    took_us: int  # from at until there was an outcome, or until now
    agent_away_since: NotRequired[str]  # of an open delegation that came: since when no agent of the name agent is attached; null, and left out: one is
    payload: NotRequired[dict[str, Any]]  # if it was asked for, and bytes is at most 64 KiB
    answer_payload: NotRequired[dict[str, Any]]  # likewise of the reply


class TrafficAnswer(TypedDict):
    """TrafficAnswer is the result of traffic."""

    entries: list[TrafficEntry]  # in the order in which they ended
    next: int  # the after that continues; never 0
    lost: int  # entries behind after that are not kept, or no longer, whatever the filter
    open: NotRequired[list[TrafficEntry]]  # open has the queries and delegations that are open now, the oldest first, at most 1000, also those that began when nobody watched. absent: they were not asked for.
    open_more: NotRequired[int]  # open calls that are not there for want of room: peers have turns then


class TrafficParams(TypedDict):
    """TrafficParams are the params of traffic. Empty filters match everything. The first call on a connection begins to watch: of what passed before, the history is there unless config.yaml turns it off. The end of the connection ends it."""

    after: NotRequired[int]  # next of the answer that this one continues; 0: from the oldest entry that is kept, or from now on if the history is off
    limit: NotRequired[int]  # of entries; 0: 1000, which is also the most
    wait_ms: NotRequired[int]  # answer when an entry has come, or after so long; up to 30 s; 0: at once
    kinds: NotRequired[list[str]]
    topics: NotRequired[list[str]]  # of notifies; "ci" is also "ci.test"
    peers: NotRequired[list[str]]
    threads: NotRequired[list[str]]
    agents: NotRequired[list[str]]  # the agent that sent it, or that it is for
    payload: NotRequired[bool]  # entries have their payloads
    open: NotRequired[bool]  # the answer has the open calls


class TrustParams(TypedDict):
    """TrustParams are the params of trust."""

    peer: str  # full id, or name or prefix of a pending one
    name: NotRequired[str]  # "": the name it has, or what it calls itself
    addrs: NotRequired[list[str]]  # host:port, instead of those it had; absent leaves them, empty leaves none, nor where it was if it is not there now


class UnpostedParams(TypedDict):
    """UnpostedParams are the params of unposted, whose result is {}. It is for sessions that answer wake with posted while they are busy: the program of the session that calls was not given the pointer to the message after all. acpctl answers when that is known."""

    peer: str  # who sent the message
    id: str
    refused: NotRequired[str]  # as in WakeAnswer
    needs_person: NotRequired[bool]  # as in WakeAnswer


class UntrustParams(TypedDict):
    """UntrustParams are the params of untrust."""

    peer: str


class Untrusted(TypedDict):
    """Untrusted is the result of untrust. The peer is cut off even if unwritten names parts."""

    id: str
    name: str
    unwritten: NotRequired[list[str]]  # parts that are not on disk yet; the daemon keeps trying
    reason: NotRequired[str]  # why the last of them is not
    already: NotRequired[bool]  # it was blocked before this call


class WaitParams(TypedDict):
    """WaitParams are the params of wait, which returns when the delegation is over."""

    id: str
    timeout_ms: NotRequired[int]  # 0: no limit; else the error is timeout
    after_partials: NotRequired[int]  # return as well when partials is over it
    after_questions: NotRequired[int]  # return as well when questions is over it and there is a Question


class WakeAllowParams(TypedDict):
    """WakeAllowParams are the params of wake.allow, whose result is WakeRules: the rules for the peer now."""

    peer: str
    kinds: NotRequired[list[str]]  # of query, delegate, notify, result, error; empty: all of them
    agent: NotRequired[str]  # the session; "": every session
    ask: NotRequired[bool]  # the owner is asked before a message begins a turn: approvals.decide
    unattended: NotRequired[bool]  # also if nobody is there to be asked for permissions


class WakeAnswer(TypedDict):
    """WakeAnswer is the answer of a session to wake. A session that is busy answers when its turn has ended: the daemon waits as long as the session is attached."""

    posted: bool  # posted says that the session's program was given a pointer to the message: a turn begins, or takes the pointer up. It is ignored if the message had no grant.
    proven: bool  # proven says that the program has proved that the message's text is in the input of the model. The daemon then removes the message from the inbox.
    refused: NotRequired[str]  # refused says why the program took no pointer and would take none now, in a line for the daemon's owner: "the session is unattended". For a minute, peers then learn that the session answers when it is active. It is "" if the message was read meanwhile, or nobody waits for it.
    needs_person: NotRequired[bool]  # needs_person says that a person is what is missing: nobody is asked before the session's tools run, or its program waits for its user to allow the pointer. The daemon tells its owner.


class WakeAnswersParams(TypedDict):
    """WakeAnswersParams are the params of wake.answers, whose result is WakeRules."""

    on: bool  # the final result, error or question of what a session asked wakes it
    agent: NotRequired[str]  # the session; "": every session
    unattended: NotRequired[bool]  # also if nobody is there to be asked for permissions


class WakeAnswersRule(TypedDict):
    """WakeAnswersRule lets answers to what a session asked wake it."""

    agent: NotRequired[str]  # the session; "": every session
    unattended: bool
    source: Literal["wake.yaml", "config.yaml"]  # as in WakeRule


class WakeRevokeParams(TypedDict):
    """WakeRevokeParams are the params of wake.revoke, whose result is Revoked."""

    peer: str
    kinds: NotRequired[list[str]]  # empty: all of them
    agent: NotRequired[str]  # "": of every session, and those of single ones


class WakeRule(TypedDict):
    """WakeRule lets messages of one kind of a peer wake a session."""

    peer: str
    name: str
    kind: str
    agent: NotRequired[str]  # the session; "": every session
    ask: bool
    unattended: bool
    since: Union[str, None]  # null: the settings say so
    source: Literal["wake.yaml", "config.yaml"]  # wake.yaml, which wake.allow writes, or config.yaml


class WakeRules(TypedDict):
    """WakeRules is the result of wake.list, which has no params."""

    rules: list[WakeRule]
    answers: list[WakeAnswersRule]


class WakeTestParams(TypedDict):
    """WakeTestParams are the params of wake.test, whose result is WakeTested."""

    agent: str  # the session
    unattended: NotRequired[bool]  # also if nobody is there to be asked for permissions


class WakeTested(TypedDict):
    """WakeTested is how the owner's own wake of a session ended. It uses up no peer's turns."""

    agent: str
    posted: bool  # its program has taken the line, so a turn begins
    refused: NotRequired[str]  # else why not


class Whoami(TypedDict):
    """Whoami is the result of whoami, which has no params."""

    id: str
    name: str
    version: str
    uptime_secs: int
    listen: list[str]  # host:port
    hides_addrs: NotRequired[bool]  # peers get none of listen: reach.direct is off, and there is a relay
    home: str
