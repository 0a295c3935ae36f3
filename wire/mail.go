package wire

import (
	"bufio"
	"fmt"
	"io"

	"github.com/acpd/acpd/internal/ownwords"
)

// MailVersion is the version of the mail items.
const MailVersion = 1

// The operations of a mail stream.
const (
	MailDeliver  = "deliver"  // the message's bytes follow the item
	MailConsumed = "consumed" // the recipient is done with a message that was stored
	MailPresence = "presence" // the status of an agent of the sender
)

// The results of a mail stream.
const (
	MailStored    = "stored"            // durable at the receiver
	MailDuplicate = "duplicate"         // it was stored before
	MailOK        = "ok"                // consumed and presence: taken note of
	MailRefused   = "refused_permanent" // the same again will be refused again
	MailRetry     = "refused_retry"     // the same may be taken later
)

// MailScopeMessage is the scope of a refusal that concerns only this message: the sender
// may send others meanwhile. Any other scope, and an empty one, means all mail of the sender.
const MailScopeMessage = "message"

// Limits of the fields of a mail item, in bytes.
const (
	MaxMailProject = 128
	maxMailText    = 1024
)

// MailRequest is the item that begins a stream of type 0x03 (protocol, section 3).
// A version or an operation that is not known leaves the other fields unread.
type MailRequest struct {
	V       uint64
	Op      string
	Project string
	Agent   string // the recipient; with presence the agent it speaks of

	File     string    // deliver and consumed: its name at the sender
	Hash     [32]byte  // deliver and consumed: SHA-256 of the bytes
	Size     uint64    // deliver: how many bytes follow
	Delivery MessageID // deliver: names this attempt in logs

	Status    string // presence: available, busy or offline
	UpdatedAt string // presence: when it began, RFC 3339
}

// MailReply is the item that answers a [MailRequest].
type MailReply struct {
	Result  string
	Code    string // with a refusal: a code of package kinds
	Message string // with a refusal: why, for a person
	Scope   string // with a refusal: [MailScopeMessage], or ""
}

// AppendMailRequest appends a request with its length. It refuses what
// [ReadMailRequest] would.
func AppendMailRequest(b []byte, m *MailRequest) ([]byte, error) {
	if err := m.checkFields(); err != nil {
		return b, ownwords.Errorf("encode mail item: %w", err)
	}
	fields := map[string]any{"op": m.Op, "v": m.V, "project": m.Project}
	switch m.Op {
	case MailDeliver:
		fields["size"], fields["delivery"] = m.Size, m.Delivery[:]
		fallthrough
	case MailConsumed:
		fields["filename"], fields["sha256"] = m.File, m.Hash[:]
	case MailPresence:
		fields["status"], fields["updated_at"] = m.Status, m.UpdatedAt
	default:
		return b, ownwords.Errorf("encode mail item: %q is no operation", m.Op)
	}
	fields[m.agentFieldName()] = m.Agent
	return appendItem(b, fields)
}

// AppendMailReply appends a reply with its length. A longer message is cut.
func AppendMailReply(b []byte, m *MailReply) ([]byte, error) {
	fields := map[string]any{"result": m.Result}
	if m.Code != "" {
		fields["code"], fields["message"] = m.Code, cutText(m.Message, maxMailText)
		if m.Scope != "" {
			fields["scope"] = m.Scope
		}
	}
	return appendItem(b, fields)
}

// ReadMailRequest reads a request. It blocks until the item is whole; one that does
// not decode is a [FormatError]. What follows the item is left in r.
func ReadMailRequest(r *bufio.Reader) (*MailRequest, error) {
	v, err := readItemBody(r)
	if err != nil {
		return nil, err
	}
	m := new(MailRequest)
	err = v.readFields("", func(key []byte, v cborValue) (err error) {
		switch string(key) {
		case "v":
			m.V, err = v.readUint()
		case "op":
			m.Op, err = v.readText()
		}
		return err
	}, "v", "op")
	if err != nil || m.V != MailVersion {
		return m, err
	}
	required := []string{"project"}
	agent := m.agentFieldName()
	switch m.Op {
	case MailDeliver:
		required = append(required, agent, "filename", "sha256", "size", "delivery")
	case MailConsumed:
		required = append(required, agent, "filename", "sha256")
	case MailPresence:
		required = append(required, agent, "status", "updated_at")
	default:
		return m, nil
	}
	err = v.readFields("", func(key []byte, v cborValue) (err error) {
		switch string(key) {
		case "project":
			m.Project, err = v.readText()
		case agent:
			m.Agent, err = v.readText()
		case "filename":
			m.File, err = v.readText()
		case "sha256":
			err = v.readBytesInto(m.Hash[:])
		case "size":
			m.Size, err = v.readUint()
		case "delivery":
			err = v.readBytesInto(m.Delivery[:])
		case "status":
			m.Status, err = v.readText()
		case "updated_at":
			m.UpdatedAt, err = v.readText()
		}
		return err
	}, required...)
	if err == nil {
		err = m.checkFields()
	}
	return m, err
}

// ReadMailReply reads a reply, which must be the last of its stream: it blocks
// until that ends. One that does not decode is a [FormatError].
func ReadMailReply(r *bufio.Reader) (*MailReply, error) {
	v, err := readItemBody(r)
	if err != nil {
		return nil, err
	}
	m := new(MailReply)
	err = v.readFields("", func(key []byte, v cborValue) (err error) {
		switch string(key) {
		case "result":
			m.Result, err = v.readText()
		case "code":
			m.Code, err = v.readText()
		case "message":
			m.Message, err = v.readText()
		case "scope":
			m.Scope, err = v.readText()
		}
		return err
	}, "result")
	if err == nil {
		err = m.checkFields()
	}
	if err != nil {
		return nil, err
	}
	if _, err := r.ReadByte(); err == nil {
		return nil, newFormatError("", "bytes after the reply")
	} else if err != io.EOF {
		return nil, err
	}
	return m, nil
}

func (m *MailRequest) agentFieldName() string {
	if m.Op == MailPresence {
		return "agent"
	}
	return "recipient"
}

func (m *MailRequest) checkFields() error {
	for _, f := range []struct {
		name, text string
		most       int
	}{
		{"project", m.Project, MaxMailProject},
		{m.agentFieldName(), m.Agent, MaxLabel},
		{"filename", m.File, maxMailText},
		{"status", m.Status, MaxLabel},
		{"updated_at", m.UpdatedAt, MaxLabel},
	} {
		if len(f.text) > f.most {
			return newFormatError(f.name, fmt.Sprintf("%d bytes: expected at most %d", len(f.text), f.most))
		}
	}
	switch {
	case m.Project == "":
		return newFormatError("project", "empty")
	case m.Agent == "":
		return newFormatError(m.agentFieldName(), "empty")
	case m.File == "" && m.Op != MailPresence:
		return newFormatError("filename", "empty")
	case m.Status == "" && m.Op == MailPresence:
		return newFormatError("status", "empty")
	}
	return nil
}

func (m *MailReply) checkFields() error {
	switch m.Result {
	case MailStored, MailDuplicate, MailOK:
		return nil
	case MailRefused, MailRetry:
		if m.Code == "" || len(m.Code) > MaxLabel {
			return newFormatError("code", fmt.Sprintf("%d bytes: expected 1 to %d in a refusal", len(m.Code), MaxLabel))
		}
		if len(m.Message) > maxMailText {
			return newFormatError("message", fmt.Sprintf("%d bytes: expected at most %d", len(m.Message), maxMailText))
		}
		if len(m.Scope) > MaxLabel {
			return newFormatError("scope", fmt.Sprintf("%d bytes: expected at most %d", len(m.Scope), MaxLabel))
		}
		return nil
	}
	return newFormatError("result", "unknown")
}
