// The objects of the local API, as they are on the socket.
//
// Made from docs/local-api.json by go generate ./integration/localapi: do not edit it.
// A daemon that is newer than this file may send more fields and other values.

/** What a daemon serves: the params and the result of each method. */
export interface Methods {
  /** asks a peer's daemon for a sign of life */
  ping: { params: PingParams; result: PingAnswer };
  /** asks what a peer's agents can do */
  discover: { params: DiscoverParams; result: DiscoverAnswer };
  /** asks a peer's agent a question, and waits for the response */
  query: { params: QueryParams; result: QueryAnswer };
  /** gives a peer's agent a task, and waits for its ack; call wait to wait for the end */
  delegate: { params: DelegateParams; result: DelegateAnswer };
  /** asks a peer's agent to end a delegation, and waits for its ack */
  cancel: { params: CancelParams; result: CancelAnswer };
  /** answers a question that the agent working on a delegation has asked back */
  answer: { params: AnswerParams; result: Answered };
  /** sends a message to one peer or to several, and waits for the receipts; a list of peers is answered by a list */
  notify: { params: NotifyParams; result: Receipt | Array<Receipt> };
  /** sends a partial or the final result of a delegation that this daemon's agents have taken */
  result: { params: ResultParams; result: Receipt };
  /** ends a delegation that this daemon's agents have taken with an error */
  error: { params: ErrorParams; result: Receipt };
  /** returns who this daemon is */
  whoami: { params: {}; result: Whoami };
  /** returns what whoami returns, and the daemon's load, attached agents, numbers of messages and warnings */
  status: { params: {}; result: Status };
  /** returns how much peers may use of the daemon's resources, and how much each uses now */
  budget: { params: BudgetParams; result: Budget };
  /** reads config.yaml again, and returns what has changed; if the file is not valid, the old settings stay in effect */
  reload: { params: {}; result: Reloaded };
  /** stops taking new work, waits until the work under way has ended, and ends the daemon */
  drain: { params: DrainParams; result: Drained };
  /** reserves what a headless run may cost from the day's budget of a peer; returns overloaded if not enough is left */
  "budget.reserve": { params: ReserveParams; result: Reserved };
  /** reports the cost of a run for which budget.reserve was called */
  "budget.settle": { params: SettleParams; result: {} };
  /** returns what headless runs have cost, and what they may cost on one day */
  "budget.spent": { params: SpentParams; result: Spent };
  /** lists the peers; agents get only the trusted ones, without addresses */
  peers: { params: {}; result: Peers };
  /** lists delegations, given and taken, the newest first */
  tasks: { params: TasksParams; result: Tasks };
  /** returns one delegation, with its payloads */
  task: { params: TaskParams; result: Task };
  /** waits until a delegation is final, has more partial results than after_partials, or a question beyond the first after_questions waits for an answer */
  wait: { params: WaitParams; result: Task };
  /** returns a page of the messages in the inbox, and removes nothing */
  inbox: { params: InboxParams; result: Inbox };
  /** confirms that messages were shown that inbox has returned with peek; from then on ack may remove them */
  shown: { params: ShownParams; result: {} };
  /** removes messages that inbox has returned from the inbox */
  ack: { params: AckParams; result: Acked };
  /** creates an invitation, which one stranger can use until it expires */
  invite: { params: InviteParams; result: Invitation };
  /** lists the open invitations, without their secrets */
  invitations: { params: {}; result: Invitations };
  /** ends open invitations */
  revoke: { params: RevokeParams; result: Revoked };
  /** uses an invitation of another daemon: afterwards the two trust each other */
  join: { params: JoinParams; result: NamedPeer };
  /** trusts a peer from now on, or changes its name and addresses */
  trust: { params: TrustParams; result: NamedPeer };
  /** returns what a list of peers would change; with apply, trusts all of them in one write, or changes nothing */
  "trust.roster": { params: RosterParams; result: Roster };
  /** ends trust in a peer, closes its connections and blocks its key */
  untrust: { params: UntrustParams; result: Untrusted };
  /** lists the strangers that have called and wait for a decision */
  pending: { params: {}; result: Pending };
  /** returns what answers at each address of a trusted peer, without sending the peer a message */
  probe: { params: ProbeParams; result: Probe };
  /** returns this daemon's certificate, or the content of a certificate file, and the authorities whose certificates are valid */
  certificate: { params: CertificateParams; result: Certificates };
  /** returns whether the configuration allows a peer to send a kind of message, and which rule decides */
  policy: { params: PolicyParams; result: Policy };
  /** makes this connection that of an agent: from now on the daemon calls it, and its calls are those of the agent */
  attach: { params: AttachParams; result: Attached };
  /** makes this connection call as an agent that another connection has attached */
  speak: { params: SpeakParams; result: {} };
  /** subscribes to copies of messages and to events, which come as notifications */
  subscribe: { params: SubscribeParams; result: {} };
  /** returns messages that have passed, once they have their outcome, and on demand the calls that are open; the first call on a connection starts watching */
  traffic: { params: TrafficParams; result: TrafficAnswer };
  /** reports that the calling session, which has answered wake with posted, was not woken for that message after all; no turn is charged for it */
  unposted: { params: UnpostedParams; result: {} };
  /** returns what waits for the calling agent, and what the daemon's owner should know about it */
  session: { params: {}; result: SessionState };
  /** lets messages of a peer wake sessions; the result has the rules of that peer */
  "wake.allow": { params: WakeAllowParams; result: WakeRules };
  /** lists what may wake sessions */
  "wake.list": { params: {}; result: WakeRules };
  /** removes rules that wake.allow has added */
  "wake.revoke": { params: WakeRevokeParams; result: Revoked };
  /** sets whether sessions are woken by answers to what they have asked */
  "wake.answers": { params: WakeAnswersParams; result: WakeRules };
  /** lists the messages that need the owner's approval before they wake a session */
  approvals: { params: {}; result: Approvals };
  /** approves or declines a message that needs the owner's approval */
  "approvals.decide": { params: ApproveParams; result: Approval };
  /** lists the attached agents, and who woke those that are sessions */
  agents: { params: {}; result: Agents };
  /** wakes a session for the owner, to test whether that works */
  "wake.test": { params: WakeTestParams; result: WakeTested };
  /** returns the command that notifies the owner of what waits for them, and can set or try it first */
  "wake.notify": { params: OwnerNotifyParams; result: OwnerNotify };
  /** prevents everything from waking a session for a time */
  "agents.mute": { params: MuteAgentParams; result: Muted };
  /** makes the connection a pipe for packets of another daemon (docs/protocol.md); after the answer it carries packets, not lines */
  pipe: { params: {}; result: {} };
  /** sends a file to a peer; after the answer the connection carries FileSendLines, and what they ask for (docs/local-api.md, Files) */
  "file.send": { params: FileSendParams; result: {} };
  /** returns a file that came; after the answer the connection carries its bytes, and ends */
  "file.take": { params: FileTakeParams; result: File };
  /** lists the files that came, come or are being sent, the oldest first */
  files: { params: FilesParams; result: Files };
  /** removes a file that came, or what there is of one that comes */
  "file.remove": { params: FileRemoveParams; result: File };
  /** has the owner asked again before files of a peer are taken */
  "file.ask": { params: FileAskParams; result: {} };
  /** copies state.db, as it is when the call begins, into a file that exists as long as the connection; one copy at a time */
  backup: { params: {}; result: StateCopy };
  /** adds a relay, a server that forwards packets between daemons; tries it first by default */
  "relay.add": { params: RelayAddParams; result: RelayAdded };
  /** removes a relay that relay.add or join has added */
  "relay.remove": { params: RelayRemoveParams; result: {} };
  /** lists the relays, and the state of each */
  "relay.list": { params: {}; result: Relays };
  /** tries relays, and returns what is wrong with each */
  "relay.test": { params: RelayTestParams; result: RelayChecks };
  /** returns the public half of the nkey with which the daemon logs in at relays */
  "relay.nkey": { params: {}; result: RelayNkey };
  /** binds an agent to a peer: from now on its OACP mail is sent there */
  "oacp.bind": { params: OACPBindParams; result: OACPBinding };
  /** removes the binding of an agent, which lives here again */
  "oacp.unbind": { params: OACPUnbindParams; result: OACPBinding };
  /** lists the bindings */
  "oacp.bindings": { params: OACPBindingsParams; result: OACPBindings };
  /** lists the mail in the inboxes of bound agents */
  "oacp.queue": { params: OACPQueueParams; result: OACPQueue };
  /** gives up the delivery of a file that is for another machine */
  "oacp.drop": { params: OACPDropParams; result: OACPDropped };
}

/** What the daemon calls at an agent that has attached. */
export interface AgentMethods {
  /** a question; the result is the payload of the response */
  query: { params: InboundQuery; result: Response };
  /** a task; the answer is whether the agent takes it, and result or error follow later */
  delegate: { params: InboundDelegate; result: Ack };
  /** a request to end a task that the agent has taken, by its ref; the answer is whether the agent gives it up */
  cancel: { params: InboundCancel; result: Ack };
  /** a message; the result confirms that the agent has it */
  notify: { params: InboundNotify; result: {} };
  /** a result of what the agent has delegated; the result confirms that the agent has it */
  result: { params: InboundResult; result: {} };
  /** the error that ended what the agent has delegated; the result confirms that the agent has it */
  error: { params: InboundError; result: {} };
  /** only for sessions: a message that is now in the inbox for the session */
  wake: { params: Inbound; result: WakeAnswer };
}

/** What the daemon sends to who has subscribed. */
export interface Notifications {
  /** a copy of a message that was received or sent */
  message: Message;
  /** something that happened to a peer, or to a relay */
  event: Event;
}

/** The codes of errors; a later daemon may have others. */
export type Code =
  | "not_authorized" // policy forbids it, or from or to is not the connection's
  | "unknown_domain" // every attached agent declared domains and none matches; details.domains lists them
  | "unknown_kind" // the receiver does not know the kind
  | "invalid" // malformed envelope or payload; the message names the field
  | "too_large" // the encoded envelope is over max_message; no daemon cuts a message. An agent may cut what it answers, as `acpctl serve` does with what its command prints, and then says so: `truncated: true`
  | "no_agent" // no agent is attached that could answer
  | "overloaded" // a task or rate limit is reached, or a table is full; see retry_after_ms
  | "timeout" // the deadline passed
  | "cancelled" // the caller gave up, or the task was cancelled
  | "not_found" // ref names nothing that this peer may refer to
  | "loop_detected" // the chain of messages is longer than 16
  | "incompatible_version" // no common version of the protocol
  | "internal" // the receiver failed
  | "unreachable" // no answer from the peer; details.delivered is no or unknown
  | "daemon_unavailable" // no daemon answers on the socket
  | "unknown_peer" // no peer has that name or id, or several have it
  | "not_trusted" // the peer does not trust this daemon
  | "identity_conflict" // another process shows the same identity, or a peer another key
  | "kept" // the message did not arrive, and this daemon keeps it as the caller wanted; details.kept says until when
  | (string & {});

/** Ack answers delegate and cancel. */
export interface Ack {
  accepted: boolean;
  estimated_ms?: number;
  /** when not accepted */
  code?: Code;
  /** when not accepted */
  message?: string;
}

/** AckParams are the params of ack: either ids, or up_to, or ref. If peers are named, ids are of their messages alone. UpTo comes with the filter that inbox was called with. IDs and up_to remove only what inbox has returned before. Ref removes the result or error of a delegation that the caller gave; the caller has it from wait. */
export interface AckParams {
  ids?: Array<string>;
  /** sequence number, inclusive */
  up_to?: number;
  kinds?: Array<string>;
  peers?: Array<string>;
  /** of a delegation */
  ref?: string;
}

/** Acked is the result of ack. IDs and not_shown answer an ack by ids. */
export interface Acked {
  /** how many messages */
  removed: number;
  /** of the messages that were removed */
  ids?: Array<string>;
  /** of the messages that stay, because the caller was not shown them */
  not_shown?: Array<string>;
}

/** AddrSource says from where a daemon knows an address. */
export type AddrSource = "worked" | "static" | "mdns" | "call" | "relay" | "pipe";

/** Agent is one attached agent. */
export interface Agent {
  name: string;
  kinds: Array<string>;
  domains: Array<string>;
  topics: Array<string>;
  max_concurrent: number;
  /** queries and delegations that it works on */
  active: number;
  since: string;
  /** of a live session, which answers only while it has a turn */
  session?: SessionInfo;
  /** what it says that it is for */
  about?: string;
}

/** AgentDetails says of an agent what it is for, and how it answers the sender of the discover. */
export interface AgentDetails {
  name: string;
  /** in the agent's own words, at most 120 characters */
  about?: string;
  /** now, wakes or turn; a later daemon may have other words */
  answers: string;
}

/** AgentState is a row of agents: an attached agent and, if it is a session, who woke it. */
export interface AgentState {
  name: string;
  kinds: Array<string>;
  domains: Array<string>;
  topics: Array<string>;
  max_concurrent: number;
  /** queries and delegations that it works on */
  active: number;
  since: string;
  /** of a live session, which answers only while it has a turn */
  session?: SessionInfo;
  /** what it says that it is for */
  about?: string;
  woken?: Woken;
}

/** Agents is the result of agents, which has no params. */
export interface Agents {
  agents: Array<AgentState>;
}

/** The params of answer. */
export interface AnswerParams {
  /** the question, or the delegation that it is about */
  ref: string;
  payload: Response;
}

/** Answered is the result of answer. */
export interface Answered {
  /** of the question */
  id: string;
  /** that it is about */
  delegation: string;
}

/** Approval is a message that waits for the owner's approval before it wakes a session, or that is approved and waits to wake the session. The inbox has the whole text, unless the message is a query or a delegation. A file that waits to be received is one too: it has no agent, its kind is file, and text begins with its name and size. */
export interface Approval {
  id: string;
  /** the session */
  agent: string;
  peer: string;
  name: string;
  kind: string;
  message: string;
  /** the beginning of what it says, in one line of at most 256 bytes */
  text: string;
  since: string;
  /** it was held before the daemon's last start, so an answer to it is forgotten */
  again?: boolean;
  /** the owner has approved it, and it waits for its turn */
  approved: boolean;
  /** the bound for which it waits although it is approved */
  kept_by?: string;
  /** when that has room at the earliest; null: no bound keeps it back */
  kept_until: string | null;
}

/** Approvals is the result of approvals, which has no params. */
export interface Approvals {
  approvals: Array<Approval>;
}

/** ApproveParams are the params of approvals.decide, whose result is the Approval. */
export interface ApproveParams {
  id: string;
  /** yes; always: also all others of this peer and kind; no: also after a yes, while it waits; it declines a query or delegation */
  answer: "yes" | "always" | "no";
}

/** AttachParams are the params of attach, whose result is Attached. From then on the daemon hands messages for the agent to this connection, and its calls are the agent's. */
export interface AttachParams {
  name: string;
  /** empty: all that the daemon hands out */
  kinds?: Array<string>;
  /** empty: any */
  domains?: Array<string>;
  /** empty: any */
  topics?: Array<string>;
  capabilities?: Capabilities;
  /** queries and delegations at a time; 0: 4 */
  max_concurrent?: number;
  /** replace an agent of that name; not in the agents' folder */
  take_over?: boolean;
  /** what an earlier attach of the name returned; "": the daemon draws one */
  key?: string;
  /** the agent is a live session, which answers only while it has a turn; absent: it answers by itself */
  session?: SessionInfo;
  /** what it is for, which peers can read: one line of at most 120 characters */
  about?: string;
}

/** Attached is the result of attach. */
export interface Attached {
  /** a secret: with it the agent comes back to its name and to what is its own */
  key: string;
}

/** Authority is an entry of organisation.authorities. */
export interface Authority {
  name: string;
  /** what its peers may initiate without a rule */
  allow: Array<string>;
  /** entries of its file of revocations */
  revoked: number;
  /** that have a valid certificate of it, and are known */
  peers: number;
}

/** BindingMode says when the copy here of a mail for a bound agent is removed. */
export type BindingMode = "mirror" | "on-stored";

/** Budget is the result of budget: the limits on what peers may use of this daemon, and what each uses now. */
export interface Budget {
  rows: Array<BudgetRow>;
  /** row by row, the peer that holds most first; without peers that hold nothing and were refused nothing */
  usage: Array<BudgetUsage>;
}

/** BudgetParams are the params of budget. */
export interface BudgetParams {
  /** to list only its usage; "" lists that of all */
  peer?: string;
}

/** BudgetRow is the limit on what peers may hold of one thing, such as memory or rows of the store. */
export interface BudgetRow {
  name: string;
  /** bytes; "" for a plain number; bytes_free: held bytes of the disk are free, and all must be left */
  unit: "" | "bytes" | "bytes_free";
  /** one peer at most; 0: no bound of its own */
  peer: number;
  /** all together at most; 0: no sum */
  all: number;
  /** by all together */
  held: number;
  /** is counted, for people */
  what: string;
  /** how it is freed, for people; "": it frees itself */
  remedy?: string;
}

/** BudgetUsage says how much of a row one peer holds. */
export interface BudgetUsage {
  row: string;
  /** all digits 0: strangers, on the link that the name says */
  peer: string;
  name: string;
  held: number;
  /** how often it was refused more, since the daemon's start */
  refused: number;
}

/** Cancel ends the delegation that the envelope's ref names. */
export interface Cancel {
  reason?: string;
}

/** The result of cancel. */
export interface CancelAnswer {
  /** the delegation */
  ref: string;
  payload?: Ack;
  /** why there is no ack of the peer; the delegation has ended only here; "" with an ack */
  abandoned?: string;
}

/** The params of cancel. */
export interface CancelParams {
  /** absent: the daemon draws one; the same id again is a repeat */
  id?: string;
  /** conversation; only without parent */
  thread?: string;
  /** the message that led to this one: one that the caller was handed, or a delegation that it gave */
  parent?: string;
  /** guessed says that parent is a guess: whoever calls was not told what led to the call. Nothing ends with a parent that was guessed. */
  guessed?: boolean;
  /** "": the daemon knows whom the delegation went to */
  to?: string;
  /** the delegation */
  ref: string;
  payload?: Cancel;
  /** abandon ends the delegation only here if the peer sends no ack within 5 s. The daemon repeats the cancel until the peer answers. */
  abandon?: boolean;
}

/** Capabilities answers discover. */
export interface Capabilities {
  agent_name?: string;
  /** names of the attached agents, if the daemon answers for all */
  agents?: Array<string>;
  /** those of them, or the one that was asked about, that answer only while they have a turn */
  sessions?: Array<string>;
  domains?: Array<string>;
  channels?: Array<string>;
  tools?: Array<string>;
  max_concurrent_tasks?: number;
  model?: string;
  /** of the agents that take queries or delegations, in the order of their names, at most 64 */
  details?: Array<AgentDetails>;
}

/** Certificate is what an authority says of a key. */
export interface Certificate {
  id: string;
  /** as in build-7.corp; without an authority here, as in build-7 */
  name: string;
  /** likewise */
  groups: Array<string>;
  /** "": none here has signed it */
  authority?: string;
  serial?: number;
  /** what the authority wrote for itself */
  key_id?: string;
  /** null: since ever */
  not_before: string | null;
  /** null: for ever */
  not_after: string | null;
}

/** CertificateParams are the params of certificate. */
export interface CertificateParams {
  /** the text of a certificate file to look at; "": what this daemon shows */
  file?: string;
}

/** Certificates is the result of certificate. */
export interface Certificates {
  /** the line that an authority signs */
  request: string;
  /** may be absent */
  certificate?: Certificate;
  /** what is wrong with it, or will be soon */
  problem?: string;
  /** whose certificates are valid here */
  authorities: Array<Authority>;
}

/** DaemonState says how busy a daemon is. */
export type DaemonState = "idle" | "busy" | "overloaded" | "draining";

/** Delegate hands over a task. */
export interface Delegate {
  task: string;
  /** an object */
  context?: Record<string, unknown>;
  /** normal or urgent; "": normal */
  priority?: "normal" | "urgent";
  report_back?: boolean;
  /** 0: none */
  deadline_ms?: number;
  domain?: string;
}

/** The result of delegate. */
export interface DelegateAnswer {
  /** names the delegation from now on */
  id: string;
  /** the peer that answered */
  from: string;
  /** the agent that took or refused it, as the peer claims; "": it names none */
  from_agent?: string;
  payload: Ack;
}

/** The params of delegate. */
export interface DelegateParams {
  /** absent: the daemon draws one; the same id again is a repeat */
  id?: string;
  /** conversation; only without parent */
  thread?: string;
  /** the message that led to this one: one that the caller was handed, or a delegation that it gave */
  parent?: string;
  /** guessed says that parent is a guess: whoever calls was not told what led to the call. Nothing ends with a parent that was guessed. */
  guessed?: boolean;
  to: string;
  payload: Delegate;
  /** as of a query */
  keep_ms?: number;
}

/** The result of discover. */
export interface DiscoverAnswer {
  /** of the message that was sent */
  id: string;
  /** the peer that answered */
  from: string;
  /** of a response: the agent that answered, as the peer claims; "": it names none */
  from_agent?: string;
  /** pong, capabilities or response */
  kind: string;
  rtt_us: number;
  payload: Capabilities;
}

/** DiscoverParams are the params of discover. */
export interface DiscoverParams {
  /** absent: the daemon draws one; the same id again is a repeat */
  id?: string;
  /** conversation; only without parent */
  thread?: string;
  /** the message that led to this one: one that the caller was handed, or a delegation that it gave */
  parent?: string;
  /** guessed says that parent is a guess: whoever calls was not told what led to the call. Nothing ends with a parent that was guessed. */
  guessed?: boolean;
  to: string;
  /** 0: 5 s */
  timeout_ms?: number;
  /** ask again, even if an answer is cached */
  fresh?: boolean;
}

/** Drain says of a daemon that drains what is open. */
export interface Drain {
  /** when the daemon ends, whatever is open then */
  until: string;
  open: Array<OpenWork>;
}

/** DrainParams are the params of drain. */
export interface DrainParams {
  /** after which the daemon ends, whatever is open; 0: 10 minutes; up to 24 h */
  timeout_ms?: number;
}

/** Drained is the result of drain. The daemon ends when it has been sent. */
export interface Drained {
  all_ended: boolean;
  /** what was under way when the time was over */
  open: Array<OpenWork>;
}

/** Envelope is one message (protocol, section 4). The same struct is CBOR between daemons and JSON on the local socket. Unknown fields are ignored. */
export interface Envelope {
  v: number;
  id: string;
  from: string;
  to: string;
  /** the sender's unix milliseconds; advisory */
  ts: number;
  kind: string;
  /** the message that this one answers */
  ref: string | null;
  payload: Record<string, unknown>;
  /** W3C traceparent */
  trace?: string;
  /** the attached agent that is meant */
  agent?: string;
  /** conversation; a label, never authority */
  thread?: string;
  /** messages that led to this one */
  hops?: number;
  /** the attached agent that sent it; at the receiver a claim of the sender's daemon */
  from_agent?: string;
}

/** Error is an error in a form that crosses every boundary: it is the payload of an error envelope, a refused receipt, the data of a JSON-RPC error and the object that acpctl prints. Without from, all of it but quoted has only words of this program. With from, all of it is the peer's words. */
export interface ErrorData {
  code: Code;
  message: string;
  retryable?: boolean;
  retry_after_ms?: number;
  details?: Record<string, unknown>;
  /** the peer that raised it; set by the own daemon */
  from?: string;
  /** what another program said, such as a command, for a person: at most 200 bytes, on one line; nothing that a peer sends has it */
  quoted?: string;
}

/** The params of error. */
export interface ErrorParams {
  /** absent: the daemon draws one; the same id again is a repeat */
  id?: string;
  /** conversation; only without parent */
  thread?: string;
  /** the message that led to this one: one that the caller was handed, or a delegation that it gave */
  parent?: string;
  /** guessed says that parent is a guess: whoever calls was not told what led to the call. Nothing ends with a parent that was guessed. */
  guessed?: boolean;
  /** the delegation */
  ref: string;
  payload: ErrorData;
}

/** Event is the params of the notification event. */
export interface Event {
  type: EventType;
  peer?: string;
  name?: string;
  at: string;
  details?: Record<string, unknown>;
}

/** EventType says what an event tells. */
export type EventType = "up" | "moved" | "down" | "refused" | "discovered" | "lost" | "pending" | "trust" | "identity_conflict" | "mail" | "budget" | "approval" | "relay" | "kept" | "missed";

/** File is a row of files: one that came or comes from a peer, or is being sent to one. */
export interface File {
  id: string;
  direction: MessageDirection;
  peer: string;
  peer_name: string;
  /** the agent it is for; "": any */
  agent?: string;
  /** the agent that sent it, as the peer claims */
  from_agent?: string;
  /** the peer's word: never a path */
  name: string;
  size: number;
  sha256: string;
  /** the peer's word */
  text?: string;
  ref?: string;
  thread?: string;
  state: FileState;
  /** how many are there */
  bytes: number;
  since: string;
  /** when it is removed; zero while it moves */
  until?: string;
  /** the agent */
  taken_by?: string;
}

/** FileAskParams are the params of file.ask, whose result is {}: the owner is asked again before files of a peer are taken, after an earlier answer "always". */
export interface FileAskParams {
  peer: string;
}

/** FileRemoveParams are the params of file.remove, whose result is the File that was removed. */
export interface FileRemoveParams {
  id: string;
  /** as in FileTakeParams */
  peer?: string;
}

/** FileReport is the data of the notify with FileTopic. Name and text are the peer's words. */
export interface FileReport {
  id: string;
  name: string;
  size: number;
  sha256: string;
  text?: string;
  ref?: string;
}

/** FileSendLine is one line of the daemon to a client that sends a file. Exactly one of state, range, done and error is set. */
export interface FileSendLine {
  /** asked or moving, with id */
  state?: FileState;
  /** with moving: over a relay, at most 1 MiB a second */
  relay?: boolean;
  id?: string;
  /** offset and length, which the client answers by these bytes */
  range?: Array<number>;
  /** with range: how many bytes the receiver has so far */
  moved?: number;
  /** the end: the receiver has the whole file */
  done?: FileSent;
  /** the end: it has not */
  error?: ErrorData;
}

/** FileSendParams are the params of file.send. The answer is {}; after it the daemon sends lines, each a FileSendLine, and the client answers each line with a range by exactly so many bytes of the file. */
export interface FileSendParams {
  /** absent: the daemon draws one; the same id again is a repeat */
  id?: string;
  /** conversation; only without parent */
  thread?: string;
  /** the message that led to this one: one that the caller was handed, or a delegation that it gave */
  parent?: string;
  /** guessed says that parent is a guess: whoever calls was not told what led to the call. Nothing ends with a parent that was guessed. */
  guessed?: boolean;
  /** the peer */
  to: string;
  /** the agent there that the file is for; "": any */
  agent?: string;
  /** its last component is what the receiver sees */
  name: string;
  /** in bytes */
  size: number;
  /** 64 hex digits */
  sha256: string;
  /** what it is, at most 4,096 bytes */
  text?: string;
  /** the delegation or message that the file belongs to */
  ref?: string;
  /** how long the receiver's owner has for an answer; 0: 10 minutes; at most 24 h */
  wait_ms?: number;
}

/** FileSent is how a file arrived. */
export interface FileSent {
  id: string;
  /** handed or held: the entry that reports it */
  state: ReceiptState;
  /** the receiver had the file already; then handed says that the entry has left the inbox */
  had?: boolean;
}

/** FileState says how far a file came. */
export type FileState = "asked" | "moving" | "paused" | "here" | "taken";

/** FileTakeParams are the params of file.take, whose result is the File. After it the connection carries the file's bytes, and ends. An agent gets what is for it or, once, what is for any agent. */
export interface FileTakeParams {
  id: string;
  /** needed only if two peers sent a file under this id */
  peer?: string;
}

/** Files is the result of files: first what waits for the owner and what is being sent, with the beginnings of their texts, then what came, each the newest first. */
export interface Files {
  files: Array<File>;
  /** there are more */
  next?: number;
}

/** FilesParams are the params of files, whose result is Files. An agent sees what is for it or for any agent, and what it sends. */
export interface FilesParams {
  /** absent: all */
  id?: string;
  /** empty: all */
  peers?: Array<string>;
  /** absent: all; else only files that belong to this message */
  ref?: string;
  /** next of the answer before */
  after?: number;
  /** of those that came; 0: as many as fit */
  limit?: number;
}

/** HeldMessage is a message that waits in the inbox, or one that an agent took from it. */
export interface HeldMessage {
  seq: number;
  envelope: Envelope;
  /** the agent that it is for, or that took it; "": any */
  agent?: string;
  /** absent: it was not taken */
  taken_at?: string;
  /** daemon: this daemon has made it, as for a file or the end of a message that was kept; "": the peer has sent it */
  origin?: string;
}

/** Inbound is the params of every request that the daemon makes to an attached agent: the whole envelope and what the daemon knows of it. The agent answers query with the payload of a response, delegate and cancel with that of an ack, and notify, result and error with {}, by which it confirms that it has the message. */
export interface Inbound {
  v: number;
  id: string;
  from: string;
  to: string;
  /** the sender's unix milliseconds; advisory */
  ts: number;
  kind: string;
  /** the message that this one answers */
  ref: string | null;
  payload: Record<string, unknown>;
  /** W3C traceparent */
  trace?: string;
  /** the attached agent that is meant */
  agent?: string;
  /** conversation; a label, never authority */
  thread?: string;
  /** messages that led to this one */
  hops?: number;
  /** the attached agent that sent it; at the receiver a claim of the sender's daemon */
  from_agent?: string;
  /** the sender's petname here */
  name: string;
  /** what is left of it; 0: none */
  deadline_ms?: number;
  /** with result, error and cancel, and with a query that is a question back: the delegation it belongs to */
  delegation?: Task;
  /** wake is set only in the params of wake, and only for sessions: the session may be woken for the message. If it is absent, the message waits for the next tool call of the session. */
  wake?: WakeGrant;
}

/** What the daemon sends to an agent with cancel. */
export interface InboundCancel {
  v: number;
  id: string;
  from: string;
  to: string;
  /** the sender's unix milliseconds; advisory */
  ts: number;
  kind: string;
  /** the message that this one answers */
  ref: string | null;
  payload: Cancel;
  /** W3C traceparent */
  trace?: string;
  /** the attached agent that is meant */
  agent?: string;
  /** conversation; a label, never authority */
  thread?: string;
  /** messages that led to this one */
  hops?: number;
  /** the attached agent that sent it; at the receiver a claim of the sender's daemon */
  from_agent?: string;
  /** the sender's petname here */
  name: string;
  /** what is left of it; 0: none */
  deadline_ms?: number;
  /** with result, error and cancel, and with a query that is a question back: the delegation it belongs to */
  delegation?: Task;
  /** wake is set only in the params of wake, and only for sessions: the session may be woken for the message. If it is absent, the message waits for the next tool call of the session. */
  wake?: WakeGrant;
}

/** What the daemon sends to an agent with delegate. */
export interface InboundDelegate {
  v: number;
  id: string;
  from: string;
  to: string;
  /** the sender's unix milliseconds; advisory */
  ts: number;
  kind: string;
  /** the message that this one answers */
  ref: string | null;
  payload: Delegate;
  /** W3C traceparent */
  trace?: string;
  /** the attached agent that is meant */
  agent?: string;
  /** conversation; a label, never authority */
  thread?: string;
  /** messages that led to this one */
  hops?: number;
  /** the attached agent that sent it; at the receiver a claim of the sender's daemon */
  from_agent?: string;
  /** the sender's petname here */
  name: string;
  /** what is left of it; 0: none */
  deadline_ms?: number;
  /** with result, error and cancel, and with a query that is a question back: the delegation it belongs to */
  delegation?: Task;
  /** wake is set only in the params of wake, and only for sessions: the session may be woken for the message. If it is absent, the message waits for the next tool call of the session. */
  wake?: WakeGrant;
}

/** What the daemon sends to an agent with error. */
export interface InboundError {
  v: number;
  id: string;
  from: string;
  to: string;
  /** the sender's unix milliseconds; advisory */
  ts: number;
  kind: string;
  /** the message that this one answers */
  ref: string | null;
  payload: ErrorData;
  /** W3C traceparent */
  trace?: string;
  /** the attached agent that is meant */
  agent?: string;
  /** conversation; a label, never authority */
  thread?: string;
  /** messages that led to this one */
  hops?: number;
  /** the attached agent that sent it; at the receiver a claim of the sender's daemon */
  from_agent?: string;
  /** the sender's petname here */
  name: string;
  /** what is left of it; 0: none */
  deadline_ms?: number;
  /** with result, error and cancel, and with a query that is a question back: the delegation it belongs to */
  delegation?: Task;
  /** wake is set only in the params of wake, and only for sessions: the session may be woken for the message. If it is absent, the message waits for the next tool call of the session. */
  wake?: WakeGrant;
}

/** What the daemon sends to an agent with notify. */
export interface InboundNotify {
  v: number;
  id: string;
  from: string;
  to: string;
  /** the sender's unix milliseconds; advisory */
  ts: number;
  kind: string;
  /** the message that this one answers */
  ref: string | null;
  payload: Notify;
  /** W3C traceparent */
  trace?: string;
  /** the attached agent that is meant */
  agent?: string;
  /** conversation; a label, never authority */
  thread?: string;
  /** messages that led to this one */
  hops?: number;
  /** the attached agent that sent it; at the receiver a claim of the sender's daemon */
  from_agent?: string;
  /** the sender's petname here */
  name: string;
  /** what is left of it; 0: none */
  deadline_ms?: number;
  /** with result, error and cancel, and with a query that is a question back: the delegation it belongs to */
  delegation?: Task;
  /** wake is set only in the params of wake, and only for sessions: the session may be woken for the message. If it is absent, the message waits for the next tool call of the session. */
  wake?: WakeGrant;
}

/** What the daemon sends to an agent with query. */
export interface InboundQuery {
  v: number;
  id: string;
  from: string;
  to: string;
  /** the sender's unix milliseconds; advisory */
  ts: number;
  kind: string;
  /** the message that this one answers */
  ref: string | null;
  payload: Query;
  /** W3C traceparent */
  trace?: string;
  /** the attached agent that is meant */
  agent?: string;
  /** conversation; a label, never authority */
  thread?: string;
  /** messages that led to this one */
  hops?: number;
  /** the attached agent that sent it; at the receiver a claim of the sender's daemon */
  from_agent?: string;
  /** the sender's petname here */
  name: string;
  /** what is left of it; 0: none */
  deadline_ms?: number;
  /** with result, error and cancel, and with a query that is a question back: the delegation it belongs to */
  delegation?: Task;
  /** wake is set only in the params of wake, and only for sessions: the session may be woken for the message. If it is absent, the message waits for the next tool call of the session. */
  wake?: WakeGrant;
}

/** What the daemon sends to an agent with result. */
export interface InboundResult {
  v: number;
  id: string;
  from: string;
  to: string;
  /** the sender's unix milliseconds; advisory */
  ts: number;
  kind: string;
  /** the message that this one answers */
  ref: string | null;
  payload: Result;
  /** W3C traceparent */
  trace?: string;
  /** the attached agent that is meant */
  agent?: string;
  /** conversation; a label, never authority */
  thread?: string;
  /** messages that led to this one */
  hops?: number;
  /** the attached agent that sent it; at the receiver a claim of the sender's daemon */
  from_agent?: string;
  /** the sender's petname here */
  name: string;
  /** what is left of it; 0: none */
  deadline_ms?: number;
  /** with result, error and cancel, and with a query that is a question back: the delegation it belongs to */
  delegation?: Task;
  /** wake is set only in the params of wake, and only for sessions: the session may be woken for the message. If it is absent, the message waits for the next tool call of the session. */
  wake?: WakeGrant;
}

/** Inbox is the result of inbox. */
export interface Inbox {
  messages: Array<HeldMessage>;
  /** the after that continues; 0: there is no more */
  next: number;
}

/** InboxParams are the params of inbox. Empty filters match everything. */
export interface InboxParams {
  /** 0: the daemon's default */
  limit?: number;
  /** only what has a higher sequence number */
  after?: number;
  kinds?: Array<string>;
  peers?: Array<string>;
  ids?: Array<string>;
  /** ack may remove what is returned only when shown has named it */
  peek?: boolean;
  /** instead, messages for any agent that agents have acknowledged in the last 7 days */
  taken?: boolean;
}

/** Invitation is the result of invite. */
export interface Invitation {
  /** a secret until it expires */
  uri: string;
  expires: string;
  /** names it to revoke; not a secret */
  id: string;
  /** URLs of relays that it names, without secrets */
  relays?: Array<string>;
  /** of these, those whose token is in it: that cannot be taken back */
  shared?: Array<string>;
}

/** Invitations is the result of invitations, which has no params. */
export interface Invitations {
  invitations: Array<OpenInvitation>;
}

/** InviteParams are the params of invite. */
export interface InviteParams {
  /** 0: 10 minutes; up to 24 h */
  expires_secs?: number;
  /** what the joiner will be called here, a second one with -2; "": what it calls itself */
  name?: string;
  /** how many daemons can join by it, up to 64; 0: one */
  uses?: number;
  /** name no relay, and write the longer form that acpd 0.1.0 reads */
  no_relay?: boolean;
  /** give the tokens of relays away that are marked for it */
  with_credential?: boolean;
}

/** JoinParams are the params of join. */
export interface JoinParams {
  uri: string;
  /** what becomes of relays in it that the daemon does not use, and of tokens for kept ones that refuse it; "": the call is invalid if there are any of the former, and does without the latter */
  relay?: JoinRelay;
}

/** JoinRelay says what becomes of relays in an invitation. */
export type JoinRelay = "keep" | "skip";

/** Kept says that a message certainly did not arrive, and that the daemon keeps it and sends it when the peer, or its agent, is there. Client.wait waits for its end. */
export interface Kept {
  id: string;
  until: string | null;
  /** how often it, or an older one for its recipient, was tried */
  tries: number;
  /** of the last try, in words of the daemon */
  last_error: string;
}

/** MailState says how far a mail has come. */
export type MailState = "waiting" | "delivered" | "parked" | "arrived";

/** Message is the params of the notification message: a copy for a subscriber. */
export interface Message {
  envelope: Envelope;
  direction: MessageDirection;
}

/** MessageCount is how many messages of a kind passed since the daemon's start. */
export interface MessageCount {
  in: Record<string, number>;
  out: Record<string, number>;
}

/** MessageDirection says whether a daemon received a message or sent it. */
export type MessageDirection = "in" | "out";

/** MuteAgentParams are the params of agents.mute, whose result is Muted. */
export interface MuteAgentParams {
  name: string;
  /** for how long nothing wakes it, at most 30 days; 0: it may be woken again */
  secs: number;
}

/** Muted is the result of agents.mute. */
export interface Muted {
  name: string;
  /** null: it is not muted */
  until: string | null;
}

/** NamedPeer is the result of join and trust: the peer that is trusted now. */
export interface NamedPeer {
  id: string;
  name: string;
  /** of trust: settings that name the peer by its name meant another key before; of join: a relay that was kept cannot be used yet; of both: what the peer calls itself is kept from claims */
  warning?: string;
  /** of join: names of the relays that it has kept, or whose new token */
  kept?: Array<string>;
}

/** Notify tells agents of something that concerns a topic. */
export interface Notify {
  topic: string;
  data?: unknown;
  /** low, medium or high; "": low */
  importance?: "low" | "medium" | "high";
}

/** The params of notify. */
export interface NotifyParams {
  /** absent: the daemon draws one; the same id again is a repeat */
  id?: string;
  /** conversation; only without parent */
  thread?: string;
  /** the message that led to this one: one that the caller was handed, or a delegation that it gave */
  parent?: string;
  /** guessed says that parent is a guess: whoever calls was not told what led to the call. Nothing ends with a parent that was guessed. */
  guessed?: boolean;
  to: string | Array<string>;
  payload: Notify;
  /** absent: true; false: do not wait for the receipt */
  wait?: boolean;
  /** as of a query */
  keep_ms?: number;
}

/** OACPBindParams are the params of oacp.bind: from now on the agent lives at the peer, and its mail goes there. */
export interface OACPBindParams {
  project: string;
  agent: string;
  peer: string;
  /** "": mirror */
  mode?: BindingMode;
  /** with on-stored; 0: the daemon's default */
  linger_secs?: number;
  /** bind also an agent that has sent from here, and has moved */
  take?: boolean;
}

/** OACPBinding is the result of oacp.bind and oacp.unbind, and a row of oacp.bindings. */
export interface OACPBinding {
  project: string;
  agent: string;
  /** petname, or the id if it has no petname any more */
  peer: string;
  mode: BindingMode;
  linger_secs: number;
}

/** OACPBindings is the result of oacp.bindings. */
export interface OACPBindings {
  bindings: Array<OACPBinding>;
  twins?: Array<OACPTwin>;
  /** as in OACPQueue */
  home?: string;
}

/** OACPBindingsParams are the params of oacp.bindings. */
export interface OACPBindingsParams {
  /** "": all */
  project?: string;
}

/** OACPDropParams are the params of oacp.drop: the file goes from the inbox of a bound agent into its dead_letter folder. */
export interface OACPDropParams {
  project: string;
  agent: string;
  file: string;
}

/** OACPDropped is the result of oacp.drop. */
export interface OACPDropped {
  /** where the file is now, below the OACP home */
  path: string;
}

/** OACPQueue is the result of oacp.queue: what is in the inboxes of bound agents. */
export interface OACPQueue {
  entries: Array<OACPQueued>;
  /** the after that continues; "": there is no more */
  next: string;
  /** of the mailboxes whose mail the daemon carries, absolute */
  home?: string;
}

/** OACPQueueParams are the params of oacp.queue. */
export interface OACPQueueParams {
  /** "": all */
  project?: string;
  /** next of the answer that this one continues */
  after?: string;
  /** With the project, these two ask for one file: also for one that is gone, or whose agent is bound no more, if it was delivered. */
  agent?: string;
  file?: string;
}

/** OACPQueued is one file in the inbox of a bound agent. */
export interface OACPQueued {
  project: string;
  agent: string;
  /** as in OACPBinding */
  peer: string;
  file: string;
  /** "": it was not read */
  sha256: string;
  size: number;
  state: MailState;
  /** "": there is nothing to say */
  reason: string;
  /** when it was delivered; before that, when it was last changed */
  since: string;
}

/** OACPTwin is an agent that lives here and, as a connected peer claims, there too. */
export interface OACPTwin {
  project: string;
  agent: string;
  /** a name, or an id */
  peer: string;
}

/** OACPUnbindParams are the params of oacp.unbind: the agent lives here again. */
export interface OACPUnbindParams {
  project: string;
  agent: string;
}

/** OpenInvitation is a row of invitations. */
export interface OpenInvitation {
  id: string;
  expires: string;
  /** what the joiner will be called here; "": what it calls itself */
  name?: string;
  /** who has used an invitation for one daemon, and can use it again; absent if nobody has */
  used_by?: NamedPeer;
  /** how many daemons can join by it */
  uses: number;
  /** how many still can */
  left: number;
  /** those that have, and may repeat it */
  joined?: Array<NamedPeer>;
}

/** OpenWork is what somebody here has under way. */
export interface OpenWork {
  /** an attached agent that works on queries and delegations; "": calls of this daemon's programs to peers, and files on their way */
  agent?: string;
  count: number;
}

/** OwnerNotify is the command that tells the owner what waits for him. */
export interface OwnerNotify {
  /** may be empty */
  command: Array<string>;
  /** wake.yaml, which wake.notify writes, or config.yaml; "" without a command */
  source: string;
  /** how it failed when it was tried; "" if it did not */
  failed?: string;
}

/** OwnerNotifyParams are the params of wake.notify, whose result is OwnerNotify. */
export interface OwnerNotifyParams {
  /** command is to be the command from now on */
  set?: boolean;
  /** argument by argument, since no shell reads it; may be empty */
  command?: Array<string>;
  /** it is started, with test as ACP_EVENT */
  test?: boolean;
}

/** Path says how packets travel between a daemon and a peer that is connected. */
export type Path = "direct" | "pipe" | "relay";

/** Peer is one row of peers. */
export interface Peer {
  id: string;
  /** petname; trusted peers have one, and blocked ones that had */
  name: string;
  state: PeerState;
  addrs: Array<string>;
  /** null: not connected */
  rtt_us: number | null;
  /** "": not connected */
  path?: Path;
  /** where the first address comes from; "" without an address */
  source: AddrSource;
  last_seen: string | null;
  /** what it calls itself: no proof */
  claim?: string;
  /** the claim is a trusted peer's name */
  name_conflict?: boolean;
  /** of a connected one, the name and version of its program: no proof */
  software?: string;
  /** a trusted one must show the post-quantum key that it showed first */
  pinned?: boolean;
  /** a trusted one has said that it does not trust this daemon, and was not connected since */
  refuses?: boolean;
  /** of a peer that the owner does not trust, and an authority vouches for; else absent */
  certificate?: Certificate;
}

/** PeerState says how a daemon stands to a peer now. */
export type PeerState = "connected" | "trusted" | "discovered" | "pending" | "blocked";

/** Peers is the result of peers, which has no params. */
export interface Peers {
  peers: Array<Peer>;
}

/** Pending is the result of pending, which has no params. */
export interface Pending {
  pending: Array<PendingPeer>;
}

/** PendingPeer is a stranger that called and proved its key. */
export interface PendingPeer {
  id: string;
  /** what it calls itself: no proof */
  claim: string;
  /** from which it called */
  addr: string;
  since: string;
  /** the claim is a trusted peer's name */
  name_conflict?: boolean;
  /** hash of its post-quantum key */
  pq?: string;
}

/** The result of ping. */
export interface PingAnswer {
  /** of the message that was sent */
  id: string;
  /** the peer that answered */
  from: string;
  /** of a response: the agent that answered, as the peer claims; "": it names none */
  from_agent?: string;
  /** pong, capabilities or response */
  kind: string;
  rtt_us: number;
  payload: Pong;
  /** the peer's clock when it answered, in unix milliseconds: no proof; 0: the daemon does not say */
  ts?: number;
}

/** PingParams are the params of ping. */
export interface PingParams {
  /** absent: the daemon draws one; the same id again is a repeat */
  id?: string;
  /** conversation; only without parent */
  thread?: string;
  /** the message that led to this one: one that the caller was handed, or a delegation that it gave */
  parent?: string;
  /** guessed says that parent is a guess: whoever calls was not told what led to the call. Nothing ends with a parent that was guessed. */
  guessed?: boolean;
  to: string;
  /** 0: 5 s */
  timeout_ms?: number;
}

/** Policy is the result of policy. */
export interface Policy {
  allowed: boolean;
  /** the rule that decides, and why */
  rule: string;
  /** of the rule in config.yaml, as in policy.laptop; "": no rule decides */
  key?: string;
  /** of it there */
  line?: number;
  /** of it among the rules of policy, in the order of the file */
  place?: number;
  rules?: number;
  /** that applies to the message; may be absent */
  rate?: PolicyRate;
}

/** PolicyParams are the params of policy: whether the configuration allows peer to send a message of kind that names domain, or none. */
export interface PolicyParams {
  peer: string;
  kind: string;
  domain?: string;
}

/** PolicyRate is an entry of limits.rate, and what is left of it for a peer. */
export interface PolicyRate {
  /** in config.yaml, as in limits.rate0 */
  key: string;
  /** of it there */
  line: number;
  /** as in config.yaml */
  peer: string;
  /** as in config.yaml: "*" counts all kinds together */
  kind: string;
  per_second: number;
  burst: number;
  /** messages that the peer may send at once now */
  left: number;
}

/** Pong answers ping. */
export interface Pong {
  /** idle, busy or overloaded */
  status: "idle" | "busy" | "overloaded";
  uptime_secs: number;
  active_tasks: number;
  agent_name?: string;
  /** number of attached agents */
  attached?: number;
}

/** Probe is the result of probe: what answers at the addresses at which a trusted peer may be, those that peers lists. No message goes there. */
export interface Probe {
  addrs: Array<ProbedAddr>;
}

/** ProbeParams are the params of probe. */
export interface ProbeParams {
  /** a trusted one */
  peer: string;
}

/** ProbedAddr says what answers at one address. */
export interface ProbedAddr {
  /** host:port */
  addr: string;
  source: AddrSource;
  /** that of a handshake, in which the peer has proved its key; 0: it has not */
  rtt_us?: number;
  /** why it has not */
  error?: ErrorData;
}

/** Process is what the daemon's process uses of its machine. 0 means that the system does not report it. */
export interface Process {
  pid: number;
  goroutines: number;
  /** of live objects, and of dead ones that are not swept yet */
  heap_bytes: number;
  /** that are open */
  descriptors: number;
  max_descriptors: number;
  /** that the system keeps for the UDP socket until they are read */
  udp_receive_bytes: number;
  /** that it keeps until they are sent */
  udp_send_bytes: number;
}

/** Query asks a question. */
export interface Query {
  question: string;
  domain?: string;
  /** 0: no limit */
  max_tokens?: number;
  /** 0: 30,000 */
  deadline_ms?: number;
}

/** The result of query. */
export interface QueryAnswer {
  /** of the message that was sent */
  id: string;
  /** the peer that answered */
  from: string;
  /** of a response: the agent that answered, as the peer claims; "": it names none */
  from_agent?: string;
  /** pong, capabilities or response */
  kind: string;
  rtt_us: number;
  payload: Response;
}

/** The params of query. */
export interface QueryParams {
  /** absent: the daemon draws one; the same id again is a repeat */
  id?: string;
  /** conversation; only without parent */
  thread?: string;
  /** the message that led to this one: one that the caller was handed, or a delegation that it gave */
  parent?: string;
  /** guessed says that parent is a guess: whoever calls was not told what led to the call. Nothing ends with a parent that was guessed. */
  guessed?: boolean;
  /** "" only with ref: the daemon knows who delegated */
  to?: string;
  /** the delegation; absent: the query is about none */
  ref?: string;
  payload: Query;
  /** for how long the daemon keeps the query if it does not arrive, at most MaxKeep; 0: not at all */
  keep_ms?: number;
}

/** QuestionBack is what the agent that works on a delegation asks the one that delegated. The method answer answers it. */
export interface QuestionBack {
  id: string;
  /** its beginning, in a row of tasks and with other messages */
  text: string;
  since: string | null;
}

/** Receipt is the result of notify, result and error. A notify to a list is answered by a list of them in its order, each with to, id and either a state or an error. */
export interface Receipt {
  to?: string;
  id?: string;
  state?: ReceiptState;
  error?: ErrorData;
}

/** ReceiptState says how far a message came. */
export type ReceiptState = "handed" | "held" | "sent" | "replaced";

/** Relay is a row of relay.list, and of status. */
export interface Relay {
  name: string;
  /** without secrets */
  url: string;
  source: RelaySource;
  login: RelayLogin;
  /** invite may give its token away */
  share?: boolean;
  state: RelayState;
  /** when the state began; null: it is unused */
  since: string | null;
  /** what the server that it is, or was, connected to says that it is */
  server?: string;
  /** to the server and back; 0: not known */
  rtt_us?: number;
  /** why it is not up, or what went wrong last, and what to do */
  error?: string;
  /** since the daemon uses it */
  packets_in: number;
  packets_out: number;
  /** packets, in both directions */
  dropped: number;
  /** another process uses it with this daemon's identity */
  clone?: boolean;
}

/** RelayAddParams are the params of relay.add. Of credentials, token, and user with password one may be given; without them the daemon logs in with its nkey. */
export interface RelayAddParams {
  url: string;
  /** "": its host, with hyphens */
  name?: string;
  /** the absolute path of a file of NATS credentials, which the daemon reads at each login */
  credentials?: string;
  token?: string;
  user?: string;
  password?: string;
  /** invite may give the token away */
  share?: boolean;
  /** keep it untried */
  no_check?: boolean;
}

/** RelayAdded is the result of relay.add. */
export interface RelayAdded {
  relay: Relay;
  /** what was tried; absent: nothing was */
  steps?: Array<RelayStep>;
}

/** RelayCheck says what came of trying a relay. */
export interface RelayCheck {
  name: string;
  url: string;
  steps: Array<RelayStep>;
  /** why it cannot be used, and what to do; absent: it can */
  error?: ErrorData;
}

/** RelayChecks is the result of relay.test. */
export interface RelayChecks {
  checks: Array<RelayCheck>;
}

/** RelayLogin says how the daemon logs in at a relay. */
export type RelayLogin = "nkey" | "credentials" | "token" | "password";

/** RelayNkey is the result of relay.nkey, which has no params. */
export interface RelayNkey {
  /** the public half of the daemon's nkey, for the configuration of a server */
  nkey: string;
}

/** RelayRemoveParams are the params of relay.remove. */
export interface RelayRemoveParams {
  name: string;
}

/** RelaySource says where a relay is configured. */
export type RelaySource = "config" | "kept";

/** RelayState says how a daemon stands to a relay. */
export type RelayState = "connecting" | "up" | "down" | "refused" | "unused";

/** RelayStep is one thing that was tried. */
export interface RelayStep {
  /** connect, round_trip, receive, publish, nobody, name, foreign_subscribe, max_payload or nat */
  step: string;
  verdict: StepVerdict;
  /** was found */
  what: string;
  /** what to do; "": nothing, or what ends with it */
  remedy?: string;
  took_us?: number;
}

/** RelayTestParams are the params of relay.test. */
export interface RelayTestParams {
  /** "": every relay */
  name?: string;
}

/** Relays is the result of relay.list, which has no params. */
export interface Relays {
  relays: Array<Relay>;
}

/** Reloaded is the result of reload, which has no params: config.yaml was read, and is in effect. */
export interface Reloaded {
  /** against what counted before, in the order of acpd --settings; then the certificate and the revocations whose files have changed */
  changed: Array<SettingChange>;
  /** settings that differ from those of the start, and take effect at the next one */
  deferred: Array<string>;
  /** names that nobody who is trusted has; what is wrong with the certificate of the daemon */
  warnings: Array<string>;
}

/** ReserveParams are the params of budget.reserve: a run is to begin, for a query or delegation on which the caller works. What it may cost at most is spent from then on. */
export interface ReserveParams {
  profile: string;
  /** that sent the query or delegation, and to whose day the run belongs */
  peer: string;
  /** the query or delegation */
  ref: string;
  /** in US dollars; 0: the agent program names no cost */
  max_cost?: number;
  /** 0: not bounded beforehand */
  max_tokens?: number;
}

/** Reserved is the result of budget.reserve. */
export interface Reserved {
  /** for budget.settle */
  id: string;
  /** trust is another text after the peer was untrusted: whoever keeps conversations of the peer ends them then. */
  trust: string;
}

/** Response answers query. */
export interface Response {
  data?: unknown;
  summary: string;
  tokens_used?: number;
  truncated?: boolean;
}

/** Result reports on a delegation. */
export interface Result {
  /** completed, failed or partial */
  status: "completed" | "failed" | "partial";
  outcome: string;
  data?: unknown;
  /** null on success */
  error?: string | null;
  /** Of a partial one: how much is done, 0 to 1; absent if that is not known */
  progress?: number;
  /** what is being done, at most 1 KiB */
  message?: string;
}

/** The params of result. */
export interface ResultParams {
  /** absent: the daemon draws one; the same id again is a repeat */
  id?: string;
  /** conversation; only without parent */
  thread?: string;
  /** the message that led to this one: one that the caller was handed, or a delegation that it gave */
  parent?: string;
  /** guessed says that parent is a guess: whoever calls was not told what led to the call. Nothing ends with a parent that was guessed. */
  guessed?: boolean;
  /** the delegation */
  ref: string;
  payload: Result;
}

/** RevokeParams are the params of revoke: either id, or all. */
export interface RevokeParams {
  id?: string;
  all?: boolean;
}

/** Revoked is the result of revoke. */
export interface Revoked {
  /** how many invitations */
  revoked: number;
}

/** Roster is the result of trust.roster. */
export interface Roster {
  /** one for each entry, in their order */
  peers: Array<RosterPeer>;
  /** all of them are trusted now; else nothing has changed */
  applied: boolean;
  /** relays are at most 8 that entries name and this daemon does not use; relay.add adds one. */
  relays?: Array<string>;
}

/** RosterChange is what a roster means for one peer. */
export type RosterChange = "new" | "changed" | "unchanged" | "self" | "refused";

/** RosterEntry is a machine that is to be trusted. */
export interface RosterEntry {
  id: string;
  /** what it will be called here */
  name: string;
  /** host:port, instead of those it had; absent leaves them, empty leaves none */
  addrs?: Array<string>;
  /** relays are the URLs of relays at which it is, at most 2. The daemon adds none: a relay wants a login. */
  relays?: Array<string>;
}

/** RosterParams are the params of trust.roster: 1 to 1024 peers. */
export interface RosterParams {
  peers: Array<RosterEntry>;
  /** false: only say what would change */
  apply?: boolean;
}

/** RosterPeer says what becomes of one entry. */
export interface RosterPeer {
  id: string;
  /** afterwards */
  name: string;
  /** that it was given, afterwards */
  addrs: Array<string>;
  change: RosterChange;
  /** of a changed one: before */
  was?: RosterEntry;
  /** of a refused one: what is in its way, and what to do */
  problem?: string;
  /** as of trust; of applied ones */
  warning?: string;
}

/** SessionInfo says which program a session runs in. A notify, result or error for a session goes to the inbox first. Then the daemon calls wake, with which it tells the session of the message. */
export interface SessionInfo {
  /** such as claude, codex, opencode */
  harness: string;
  /** of the program */
  version?: string;
  /** unwakeable says why nothing can wake the session, in a line for the daemon's owner: "it has no folder ~/.codex here". "": something can wake it. */
  unwakeable?: string;
  /** asks is the program, such as Codex, if it asks its user before a tool runs, and waits for the answer. It is empty if nobody is asked. */
  asks?: string;
  /** folder identifies the directory of the session: sessions with the same one are in one directory. Begun is when the session began. If a program has several sessions in one directory, a message that names no session goes to the one that began last. */
  folder?: string;
  begun?: string;
}

/** SessionState is the result of session, which has no params and is for an agent that has attached, or a connection that speaks as one. */
export interface SessionState {
  /** messages in the inbox that are for this agent or for any, counted up to 99 */
  unread: number;
  /** of these, messages that the agent was shown */
  shown: number;
  /** what the daemon's owner should know of this session, one line each */
  notices: Array<string>;
}

/** SettingChange is a setting, or an entry of a setting, that has changed. */
export interface SettingChange {
  /** as in policy.laptop */
  setting: string;
  /** the value on one line, at most 260 bytes; "none" for an entry that is not there, "default" for a value that is not set */
  from: string;
  /** the same */
  to: string;
  /** it takes effect at the next start */
  deferred?: boolean;
}

/** SettleParams are the params of budget.settle, whose result is {}: from then on the real cost of the run replaces what was reserved. A run that is never settled has cost what was reserved. */
export interface SettleParams {
  id: string;
  /** in US dollars */
  cost?: number;
  tokens?: number;
  /** the run has not begun: all that was reserved is given back, and the run is not recorded */
  not_begun?: boolean;
}

/** ShownParams are the params of shown: what the caller was returned with peek, and has shown or dealt with. */
export interface ShownParams {
  /** sequence numbers, at most 1,000; those that the caller's inbox lacks are ignored */
  seqs: Array<number>;
}

/** SpeakParams are the params of speak, whose result is {}: from then on this connection calls as the agent of that name, and answers nothing. */
export interface SpeakParams {
  name: string;
  /** what its attach returned */
  key: string;
}

/** Spent is the result of budget.spent. */
export interface Spent {
  /** the newest day first, then by peer and profile */
  rows: Array<SpentRow>;
  limits: SpentLimits;
}

/** SpentLimits are the bounds of a day, which follow from spending in config.yaml. */
export interface SpentLimits {
  /** of one peer */
  runs: number;
  /** of one peer */
  tokens: number;
  /** of one peer, in US dollars */
  cost: number;
  /** of all peers together */
  cost_all: number;
  /** when the next day begins */
  until: string;
}

/** SpentParams are the params of budget.spent. */
export interface SpentParams {
  /** how many days back, today among them; 0 means only today; at most 31 */
  days?: number;
}

/** SpentRow says what runs of one profile for one peer have cost on one day. */
export interface SpentRow {
  /** 2006-01-02, local to the daemon */
  day: string;
  peer: string;
  name: string;
  profile: string;
  runs: number;
  tokens: number;
  /** in US dollars */
  cost: number;
}

/** StateCopy is the result of backup. */
export interface StateCopy {
  /** of the copy, in the state directory; it lasts as long as the connection */
  path: string;
  /** of the copy */
  bytes: number;
  /** the version of its tables */
  schema: number;
  /** the version of the daemon */
  program: string;
}

/** Status is the result of status, which has no params. */
export interface Status {
  id: string;
  name: string;
  version: string;
  uptime_secs: number;
  /** host:port */
  listen: Array<string>;
  /** peers get none of listen: reach.direct is off, and there is a relay */
  hides_addrs?: boolean;
  home: string;
  state: DaemonState;
  peers_connected: number;
  agents: Array<Agent>;
  /** queries and delegations on which agents here work */
  tasks_active: number;
  /** delegations given that are not over */
  tasks_given: number;
  /** delegations taken that are not over */
  tasks_taken: number;
  /** delegations given whose agent waits for an answer */
  questions_open: number;
  messages: MessageCount;
  relays: Array<Relay>;
  /** for the daemon's owner: what is wrong, and what to do */
  warnings: Array<string>;
  /** it does its work: see unready */
  ready: boolean;
  /** what keeps it from its work, and what to do; [] if it is ready */
  unready: Array<string>;
  /** while it drains; absent: it takes new work, or ends already */
  drain?: Drain;
  process: Process;
}

/** StepVerdict says how a step of a RelayCheck went. */
export type StepVerdict = "ok" | "warning" | "failed";

/** SubscribeParams are the params of subscribe, whose result is {}. Empty filters match everything. */
export interface SubscribeParams {
  kinds?: Array<string>;
  topics?: Array<string>;
  peers?: Array<string>;
  events?: boolean | Array<EventType>;
}

/** Task is one delegation, or a message that is or was kept: a row of tasks, and the result of task and wait. Only the results carry payloads. */
export interface Task {
  id: string;
  /** of a message that is or was kept: query, delegate or notify; "": a delegation */
  kind?: string;
  /** petname, or the id if it has no petname any more */
  peer: string;
  direction: TaskDirection;
  /** taken: the agent that delegated, as the peer claims; peer/from_agent names it in a message to it */
  from_agent?: string;
  /** given: the agent of the peer that it is for; "": any */
  to_agent?: string;
  /** taken and accepted: the agent that works on it or, if it is final, that has worked on it */
  agent?: string;
  /** its beginning */
  task: string;
  state: TaskState;
  /** nothing is owed or expected any more: it is final, or accepted and no report is wanted */
  over?: boolean;
  /** null, and left out: the daemon is older than 0.2.0 */
  began?: string;
  deadline: string | null;
  /** its beginning; the whole is in result */
  outcome: string;
  /** how many have come */
  partials?: number;
  /** payload of the last partial result, until there is result */
  partial?: Result;
  /** payload of the final result or error */
  result?: Result | ErrorData;
  /** The last partial result, until result is set. how much is done, 0 to 1; absent: none said */
  progress?: number;
  /** what is being done */
  message?: string;
  /** Of one with an agent that is not attached: since when, and until when the daemon waits for an agent of that name, before the delegation fails or its deadline has passed. Null, and left out, while one is attached. A restart of the daemon begins anew. */
  agent_away_since?: string;
  agent_awaited_until?: string;
  /** absent: it is not kept */
  kept?: Kept;
  /** given: how many the agent that works on it has asked */
  questions?: number;
  /** given: the one that waits for an answer; absent: none does */
  question?: QuestionBack;
}

/** TaskDirection tells who delegated, and so who works. */
export type TaskDirection = "given" | "taken";

/** TaskParams are the params of task. */
export interface TaskParams {
  id: string;
}

/** TaskState says how far a delegation, or a message that is kept, has come. */
export type TaskState = "sent" | "accepted" | "unknown" | "refused" | "completed" | "failed" | "cancelled" | "expired" | "kept" | "handed" | "held" | "withdrawn";

/** Tasks is the result of tasks, the newest first. */
export interface Tasks {
  tasks: Array<Task>;
  /** the after that continues; 0: there is no more */
  next: number;
}

/** TasksParams are the params of tasks. */
export interface TasksParams {
  /** 0: the daemon's default */
  limit?: number;
  /** next of the answer that this one continues */
  after?: number;
}

/** TrafficAnswer is the result of traffic. */
export interface TrafficAnswer {
  /** in the order in which they ended */
  entries: Array<TrafficEntry>;
  /** the after that continues; never 0 */
  next: number;
  /** entries behind after that are not kept, or no longer, whatever the filter */
  lost: number;
  /** open has the queries and delegations that are open now, the oldest first, at most 1000, also those that began when nobody watched. absent: they were not asked for. */
  open?: Array<TrafficEntry>;
  /** open calls that are not there for want of room: peers have turns then */
  open_more?: number;
}

/** TrafficEntry is one message that has passed the daemon, with what became of it; or in TrafficAnswer.open a call that has no outcome yet. */
export interface TrafficEntry {
  /** 0: the call is open */
  seq?: number;
  /** when it began */
  at: string;
  direction: MessageDirection;
  /** who sent it, or to whom it went */
  peer: string;
  /** petname of the peer; "" if it has no petname any more */
  name: string;
  /** the agent that it is for; in: the one that was chosen, if that is known */
  agent?: string;
  /** the agent that sent it; in: a claim of the peer's daemon */
  from_agent?: string;
  kind: string;
  id: string;
  ref?: string;
  thread?: string;
  /** of an open call: messages that led to it; in: as the sender says */
  hops?: number;
  /** out: the message that led to it, as the caller has named it */
  parent?: string;
  /** parent is a guess of the caller's */
  guessed?: boolean;
  /** name of the chain that it belongs to, 32 hex digits, the same at each daemon; in: as the sender says */
  chain?: string;
  topic?: string;
  /** the beginning of what it says, on one line, without what a terminal would obey */
  text: string;
  /** likewise of its reply, or of the error that it ended with */
  answer?: string;
  /** of the payload */
  bytes: number;
  /** ok, handed, held, sent or refused, or the code of the error; "": it is open */
  outcome: string;
  /** from at until there was an outcome, or until now */
  took_us: number;
  /** of an open delegation that came: since when no agent of the name agent is attached; null, and left out: one is */
  agent_away_since?: string;
  /** if it was asked for, and bytes is at most 64 KiB */
  payload?: Record<string, unknown>;
  /** likewise of the reply */
  answer_payload?: Record<string, unknown>;
}

/** TrafficParams are the params of traffic. Empty filters match everything. The first call on a connection begins to watch: of what passed before, the history is there unless config.yaml turns it off. The end of the connection ends it. */
export interface TrafficParams {
  /** next of the answer that this one continues; 0: from the oldest entry that is kept, or from now on if the history is off */
  after?: number;
  /** of entries; 0: 1000, which is also the most */
  limit?: number;
  /** answer when an entry has come, or after so long; up to 30 s; 0: at once */
  wait_ms?: number;
  kinds?: Array<string>;
  /** of notifies; "ci" is also "ci.test" */
  topics?: Array<string>;
  peers?: Array<string>;
  threads?: Array<string>;
  /** the agent that sent it, or that it is for */
  agents?: Array<string>;
  /** entries have their payloads */
  payload?: boolean;
  /** the answer has the open calls */
  open?: boolean;
}

/** TrustParams are the params of trust. */
export interface TrustParams {
  /** full id, or name or prefix of a pending one */
  peer: string;
  /** "": the name it has, or what it calls itself */
  name?: string;
  /** host:port, instead of those it had; absent leaves them, empty leaves none, nor where it was if it is not there now */
  addrs?: Array<string>;
}

/** UnpostedParams are the params of unposted, whose result is {}. It is for sessions that answer wake with posted while they are busy: the program of the session that calls was not given the pointer to the message after all. acpctl answers when that is known. */
export interface UnpostedParams {
  /** who sent the message */
  peer: string;
  id: string;
  /** as in WakeAnswer */
  refused?: string;
  /** as in WakeAnswer */
  needs_person?: boolean;
}

/** UntrustParams are the params of untrust. */
export interface UntrustParams {
  peer: string;
}

/** Untrusted is the result of untrust. The peer is cut off even if unwritten names parts. */
export interface Untrusted {
  id: string;
  name: string;
  /** parts that are not on disk yet; the daemon keeps trying */
  unwritten?: Array<string>;
  /** why the last of them is not */
  reason?: string;
  /** it was blocked before this call */
  already?: boolean;
}

/** WaitParams are the params of wait, which returns when the delegation is over. */
export interface WaitParams {
  id: string;
  /** 0: no limit; else the error is timeout */
  timeout_ms?: number;
  /** return as well when partials is over it */
  after_partials?: number;
  /** return as well when questions is over it and there is a Question */
  after_questions?: number;
}

/** WakeAllowParams are the params of wake.allow, whose result is WakeRules: the rules for the peer now. */
export interface WakeAllowParams {
  peer: string;
  /** of query, delegate, notify, result, error; empty: all of them */
  kinds?: Array<string>;
  /** the session; "": every session */
  agent?: string;
  /** the owner is asked before a message begins a turn: approvals.decide */
  ask?: boolean;
  /** also if nobody is there to be asked for permissions */
  unattended?: boolean;
}

/** WakeAnswer is the answer of a session to wake. A session that is busy answers when its turn has ended: the daemon waits as long as the session is attached. */
export interface WakeAnswer {
  /** posted says that the session's program was given a pointer to the message: a turn begins, or takes the pointer up. It is ignored if the message had no grant. */
  posted: boolean;
  /** proven says that the program has proved that the message's text is in the input of the model. The daemon then removes the message from the inbox. */
  proven: boolean;
  /** refused says why the program took no pointer and would take none now, in a line for the daemon's owner: "the session is unattended". For a minute, peers then learn that the session answers when it is active. It is "" if the message was read meanwhile, or nobody waits for it. */
  refused?: string;
  /** needs_person says that a person is what is missing: nobody is asked before the session's tools run, or its program waits for its user to allow the pointer. The daemon tells its owner. */
  needs_person?: boolean;
}

/** WakeAnswersParams are the params of wake.answers, whose result is WakeRules. */
export interface WakeAnswersParams {
  /** the final result, error or question of what a session asked wakes it */
  on: boolean;
  /** the session; "": every session */
  agent?: string;
  /** also if nobody is there to be asked for permissions */
  unattended?: boolean;
}

/** WakeAnswersRule lets answers to what a session asked wake it. */
export interface WakeAnswersRule {
  /** the session; "": every session */
  agent?: string;
  unattended: boolean;
  /** as in WakeRule */
  source: "wake.yaml" | "config.yaml";
}

/** WakeGrant is the daemon's word that a session may be woken for a message. It rests on what the daemon's owner has allowed, and on the bounds of woken turns. */
export interface WakeGrant {
  /** also if nobody is there to be asked for permissions */
  unattended: boolean;
  /** its owner tries whether it can be woken: there is no message */
  test?: boolean;
}

/** WakeRevokeParams are the params of wake.revoke, whose result is Revoked. */
export interface WakeRevokeParams {
  peer: string;
  /** empty: all of them */
  kinds?: Array<string>;
  /** "": of every session, and those of single ones */
  agent?: string;
}

/** WakeRule lets messages of one kind of a peer wake a session. */
export interface WakeRule {
  peer: string;
  name: string;
  kind: string;
  /** the session; "": every session */
  agent?: string;
  ask: boolean;
  unattended: boolean;
  /** null: the settings say so */
  since: string | null;
  /** wake.yaml, which wake.allow writes, or config.yaml */
  source: "wake.yaml" | "config.yaml";
}

/** WakeRules is the result of wake.list, which has no params. */
export interface WakeRules {
  rules: Array<WakeRule>;
  answers: Array<WakeAnswersRule>;
}

/** WakeTestParams are the params of wake.test, whose result is WakeTested. */
export interface WakeTestParams {
  /** the session */
  agent: string;
  /** also if nobody is there to be asked for permissions */
  unattended?: boolean;
}

/** WakeTested is how the owner's own wake of a session ended. It uses up no peer's turns. */
export interface WakeTested {
  agent: string;
  /** its program has taken the line, so a turn begins */
  posted: boolean;
  /** else why not */
  refused?: string;
}

/** Whoami is the result of whoami, which has no params. */
export interface Whoami {
  id: string;
  name: string;
  version: string;
  uptime_secs: number;
  /** host:port */
  listen: Array<string>;
  /** peers get none of listen: reach.direct is off, and there is a relay */
  hides_addrs?: boolean;
  home: string;
}

/** Woken says how often a session was woken, and by whom. */
export interface Woken {
  /** turns in the last hour */
  hour: number;
  /** turns in the last 24 hours */
  day: number;
  /** the peer that woke it most first */
  by: Array<WokenBy>;
  waiting: number;
  approvals: number;
  /** null: it is not muted */
  muted_until: string | null;
  /** why its program was not given a message in the last minute */
  refused?: string;
}

/** WokenBy says how often one peer woke a session. */
export interface WokenBy {
  peer: string;
  name: string;
  hour: number;
  day: number;
  /** until when its share of turns is used up, as a message of it has shown; null: it is not */
  used_up_until: string | null;
}
