package openintent

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
	"github.com/acpd/acpd/store"
)

// messageDraft is a message that has no place in a channel yet.
type messageDraft struct {
	kind, sender      string // sender: its name
	to, home          string // as the sender says; home: of to, "" for none
	correlation       string
	payload, metadata jsontext.Value
	canonical         jsontext.Value // the RFC 8785 form of payload, if a proof or the log needs it
	proof             *chain.Proof   // from the metadata; may be nil
	trace, parent     string         // of its event in the log
	expires           chain.Time
	id                string   // chosen by the sender's home; empty: by the host
	ask               *openAsk // that waits for its responses
	payer             string   // of a notice: the daemon that is charged for its event
}

// requestTTL is when a request without expires_at expires.
const requestTTL = 10 * time.Minute

// storeMessage stores d as the channel's next message, and the channel too if it is new. The
// caller has checked that the sender may write in the channel; storeMessage checks the rest.
func (t *tx) storeMessage(ch *channelRecord, d *messageDraft) (*message, error) {
	e := t.e
	at := max(t.now, ch.last) // the clock may go back; ids and cursors do not
	m := &message{ch: ch, number: ch.count + 1, kind: d.kind, sender: d.sender, to: d.to, correlation: d.correlation, at: at, expires: d.expires, messageState: &messageState{deadline: d.expires}}
	var request *message
	if d.kind == object.KindResponse {
		var err error
		if request, err = t.checkResponse(ch, d); err != nil {
			return nil, err
		}
		m.to, m.lead = request.sender, request.kind == object.KindRequest && !request.answered
	} else if err := t.resolveRecipients(ch, m, d); err != nil {
		return nil, err
	}
	if m.kind == object.KindRequest && m.deadline == 0 {
		m.deadline = at.Add(requestTTL)
	}
	if d.proof != nil {
		key, said := "", d.to
		if a := e.agents[e.agentKeyOf(d.sender)]; a != nil && a.doc.PublicKey != nil {
			key = *a.doc.PublicKey
		}
		if d.kind == object.KindResponse {
			said = object.ShortenOwnName(m.to, m.sender)
		}
		if err := d.proof.CheckSignature(key, &chain.Message{ChannelID: m.ch.id, Sender: object.ShortenOwnName(m.sender, m.sender), To: said, Kind: m.kind, Correlation: m.correlation,
			ExpiresAt: m.expires, Payload: d.canonical}); err != nil {
			return nil, object.ConvertProofError(err)
		}
	}
	if ch.row == 0 {
		if err := t.openChannel(ch.in, ch); err != nil {
			return nil, err
		}
	}
	m.seq, m.id, m.given = t.nextFeedNumber(), d.id, d.id != ""
	if !m.given {
		m.id = e.newMessageID(at, m.number)
	}
	m.encodeHead(d.payload, d.metadata)
	if err := errors.Join(t.insertMessage(m), t.adjustDiskShare(ch.in, e.payingHomeOf(m.sender, ch.doc.Home), diskShare{bytes: int64(len(m.head))})); err != nil {
		return nil, err
	}
	if m.lead {
		if err := t.execute("UPDATE openintent_message SET answered = 1 WHERE seq = ?", request.seq); err != nil {
			return nil, err
		}
	}
	if err := t.evictMessages(ch, m.number); err != nil {
		return nil, err
	}
	e.withLock(func() { t.addMessageToWorld(m, request, d.ask) })
	t.out = append(t.out, feedEntry{seq: m.seq, in: ch.in, message: m})
	if ch.opt.Audit {
		return m, t.appendMessageToLog(m, d)
	}
	return m, nil
}

// addMessageToWorld adds a message to its channel. request is the one that it answers, nil if there
// is none. ask waits for its responses, unless ask is nil. The world is locked.
func (t *tx) addMessageToWorld(m, request *message, ask *openAsk) {
	ch := m.ch
	set(t, &ch.count, m.number)
	set(t, &ch.last, m.at)
	if m.sender != object.System {
		set(t, &ch.used, m.at)
	}
	if m.lead {
		set(t, &request.answered, true)
		drop(t, ch.open, request.id)
	}
	if m.kind == object.KindRequest && !m.isExpired(m.at) {
		if ch.open == nil {
			ch.open = make(map[string]*message)
		}
		put(t, ch.open, m.id, m.withoutText())
	}
	if ask != nil {
		if ch.asks == nil {
			ch.asks = make(map[string]*openAsk)
		}
		keepEntry(t, ch.asks, m.id)
		ask.request, ch.asks[m.id] = m, ask
	}
	t.cached = append(t.cached, m)
	t.e.cacheMessage(m)
}

// checkResponse finds the request that a response answers, and refuses a response that its
// sender may not give.
func (t *tx) checkResponse(ch *channelRecord, d *messageDraft) (*message, error) {
	request, err := t.findMessage(ch, d.correlation)
	if err != nil {
		return nil, err
	}
	switch {
	case request == nil || request.sender != d.sender && !request.isAddressedTo(d.sender) && d.sender != object.Operator:
		return nil, object.NewFieldError("correlation_id", "there is no such request in this channel that you can see: the list of its messages has their ids")
	case request.kind != object.KindRequest && !t.e.cfg.Lenient:
		return nil, object.NewFieldError("correlation_id", "only requests are answered: this is a %s; send a message instead", request.kind)
	case !request.isAddressedTo(d.sender):
		return nil, object.NewError("not_recipient", "the request is for somebody else: reply as the agent that it is for (acpctl: --as)")
	case request.deadline != 0 && request.deadline <= t.now && (request.kind == object.KindRequest && !request.answered || request.expires != 0):
		return nil, object.NewError("request_expired", "the request has expired: its sender waits no more; send a message instead")
	}
	return request, nil
}

// resolveRecipients finds the recipients of a message, and refuses recipients that it may not
// have. They are the agent that d names, or the agents that now hold the role that d names.
func (t *tx) resolveRecipients(ch *channelRecord, m *message, d *messageDraft) (err error) {
	e := t.e
	if m.isDirect() {
		if m.to, err = e.resolveRecipient(ch, d.to, d.home); err != nil {
			return err
		}
		if k := e.agentKeyOf(m.to); !ch.isMember(m.to) || e.agentAccessLevel(ch.in, k, t.now) == levelNone {
			return e.newRecipientError(ch, k)
		}
	}
	if role, ok := strings.CutPrefix(m.to, object.ToRole); ok {
		var members map[string]bool // nil: everybody
		if ch.doc.Policy != object.PolicyIntent {
			members = newNameSet(ch.doc.Members)
		}
		for key := range e.roles[role] {
			name := e.agentNameOf(key)
			if name == m.sender || members != nil && !members[name] || !e.agentHasRole(ch.in, key, role, t.now) || e.agentAccessLevel(ch.in, key, t.now) == levelNone {
				continue
			}
			if len(m.recipients) >= object.MaxEntries {
				return object.NewTooManyError("agents that would get this message", object.MaxEntries, "send it to a role that fewer have, or to a channel of some members")
			}
			m.recipients = append(m.recipients, name)
		}
	}
	if m.kind == object.KindRequest {
		return t.checkRoomForOpenRequest(ch, e.agentKeyOf(m.sender).home)
	}
	return nil
}

// newRecipientError says why an agent may not read a channel, and who can change that.
func (w *world) newRecipientError(ch *channelRecord, k agentKey) error {
	const code = "recipient_not_member"
	switch {
	case !ch.isMember(w.agentNameOf(k)):
		return object.NewError(code, "to: the recipient is no member of the channel: ask the channel's creator to add it, with its home if it is another daemon's agent")
	case k.home == "" || ch.in.Policy != "open":
		return object.NewError(code, "to: the recipient has no access to the intent: ask the intent's creator to grant it some, with its home if it is another daemon's agent")
	case w.isOpenToHome(k.home):
		return object.NewError(code, "to: the recipient's id is another agent's on this intent: ask the intent's creator to grant it access with its home, or to free the id (acpctl channel homes)")
	}
	return object.NewError(code, "to: the intent is not open to agents of the recipient's daemon: let channels.open_to in config.yaml on the intent's machine name that daemon, or ask the intent's creator to grant the recipient access with its home")
}

// sweepTime passes before expired requests are removed again from a channel that is full of open
// requests, however many are refused meanwhile.
const sweepTime = time.Second

// checkRoomForOpenRequest refuses a request for which the channel has no room. It removes expired
// requests if these may be half of the open ones, or if there is no room.
func (t *tx) checkRoomForOpenRequest(ch *channelRecord, home string) error {
	due := len(ch.open) >= max(64, 2*ch.left)
	if len(ch.open) >= t.e.openMost {
		due = t.now < ch.swept || t.now >= ch.swept.Add(sweepTime)
	}
	if due {
		t.e.withLock(func() {
			maps.DeleteFunc(ch.open, func(_ string, r *message) bool { return r.isExpired(t.now) })
			ch.left, ch.swept = len(ch.open), t.now
		})
	}
	var open roomTally
	if n := len(ch.open); home != "" && n >= t.e.openMost/4 && n < t.e.openMost { // else the number decides
		for _, r := range ch.open {
			if at := len(r.sender) - object.HomeDigits - 1; at > 0 && r.sender[at] == '@' && r.sender[at+1:] != t.e.self && !r.isExpired(t.now) {
				open.countForHome(r.sender[at+1:], home)
			}
		}
	}
	open.all = len(ch.open)
	return open.checkRoom(home, "open requests in this channel", t.e.openMost, "come again when some are answered or have expired")
}

// findMessage finds a message of the channel by its id, or nil.
func (t *tx) findMessage(ch *channelRecord, id string) (*message, error) {
	prefix, _, _, number, ok := object.ParseID(id)
	if !ok || prefix != object.IDMessage {
		return nil, nil
	}
	if m := ch.findRecentMessage(number); m != nil && m.id == id {
		return m, nil
	}
	m, err := readMessage(t.Tx, ch, id, number)
	if err != nil || m == nil {
		return nil, err
	}
	if live := ch.findRecentMessage(m.number); live != nil {
		return live, nil
	}
	if open := ch.open[id]; open != nil {
		m.messageState = open.messageState
	} else if !m.isStillListed(t.now) {
		return nil, nil
	}
	return m, nil
}

// lightColumns are all columns of a message but its head, which may be long.
const (
	lightColumns   = "seq, number, id, kind, sender, recipient, correlation, at, expires, deadline, answered, lead, recipients, receipts, given"
	messageColumns = lightColumns + ", head"
)

// scanMessage reads a message from a row and its receipts from the store. It leaves the
// message's channel nil.
func scanMessage(stx *store.Tx, scan func(...any) error, more ...any) (*message, error) {
	m := &message{messageState: &messageState{}}
	var recipients []byte
	var receipts bool
	if err := scan(append([]any{&m.seq, &m.number, &m.id, &m.kind, &m.sender, &m.to, &m.correlation, &m.at, &m.expires, &m.deadline, &m.answered, &m.lead,
		&recipients, &receipts, &m.given, &m.head}, more...)...); err != nil {
		return nil, err
	}
	if len(recipients) > 0 {
		if err := json.Unmarshal(recipients, &m.recipients); err != nil {
			return nil, err
		}
	}
	if !receipts {
		return m, nil
	}
	return m, stx.EachRow("SELECT agent, at FROM openintent_receipt WHERE message = ? ORDER BY at", func(scan func(...any) error) error {
		var r receipt
		if err := scan(&r.agent, &r.at); err != nil {
			return err
		}
		m.reads = append(m.reads, r)
		return nil
	}, m.seq)
}

// readMessage reads a message of the channel from the store, or nil. number is
// the one in the id, which is 0 if the sender's home has chosen the id.
func readMessage(stx *store.Tx, ch *channelRecord, id string, number int64) (*message, error) {
	where, arg := "channel = ? AND number = ?", any(number)
	if number == 0 {
		where, arg = "channel = ? AND given = 1 AND id = ?", id
	}
	m, err := scanMessage(stx, stx.QueryRow("SELECT "+messageColumns+" FROM openintent_message WHERE "+where, ch.row, arg).Scan)
	switch {
	case errors.Is(err, sql.ErrNoRows) || err == nil && m.id != id:
		return nil, nil
	case err == nil:
		m.ch = ch
	}
	return m, err
}

// findMessage finds a message that was published, in memory or in the store.
func (e *Engine) findMessage(ctx context.Context, ch *channelRecord, id string) (*message, error) {
	prefix, _, _, number, ok := object.ParseID(id)
	if !ok || prefix != object.IDMessage {
		return nil, nil
	}
	var m *message
	var settled int64
	e.withReadLock(func() { m, settled = ch.findRecentMessage(number), e.settled })
	if m == nil {
		err := e.readYieldingTurn(ctx, func(stx *store.Tx) (err error) {
			m, err = readMessage(stx, ch, id, number)
			return err
		})
		if err != nil || m == nil {
			return nil, err
		}
		if number == 0 {
			e.withReadLock(func() {
				if live := ch.findRecentMessage(m.number); live != nil {
					m = live
				}
			})
		}
	}
	if m.id != id || m.seq > settled {
		return nil, nil
	}
	return m, nil
}

// insertMessage writes a message to the store.
func (t *tx) insertMessage(m *message) error {
	recipients := ""
	if m.recipients != nil {
		recipients = object.EncodeJSONText(m.recipients)
	}
	return t.execute(`INSERT INTO openintent_message
		(seq, channel, number, id, kind, sender, recipient, correlation, at, expires, deadline, answered, lead, recipients, receipts, given, head)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, 0, ?, ?)`,
		m.seq, m.ch.row, m.number, m.id, m.kind, m.sender, m.to, m.correlation, int64(m.at), int64(m.expires), int64(m.deadline), m.lead, recipients, m.given, m.head)
}
