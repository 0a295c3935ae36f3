package object

import (
	"cmp"
	"errors"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
)

// Channel is the object of RFC-0021 section 1.1. Options holds what was set,
// without the defaults.
type Channel struct {
	ID            string         `json:"id"`
	IntentID      string         `json:"intent_id"`
	TaskID        *string        `json:"task_id"`
	Name          string         `json:"name"`
	CreatedBy     string         `json:"created_by"`
	Home          string         `json:"home,omitzero"` // of its creator, if that is another daemon
	Members       []string       `json:"members"`
	Policy        string         `json:"member_policy"`
	Options       jsontext.Value `json:"options"`
	Status        string         `json:"status"`
	CreatedAt     chain.Time     `json:"created_at"`
	ClosedAt      chain.Time     `json:"closed_at"`
	MessageCount  int64          `json:"message_count"`
	LastMessageAt chain.Time     `json:"last_message_at"`
	Restricted    bool           `json:"restricted,omitzero"` // the caller is no member and sees a stub
}

const (
	MaxName = 128 // bytes of a channel's name, or of a key

	PolicyExplicit = "explicit"
	PolicyIntent   = "intent"
	StatusOpen     = "open"
	StatusClosed   = "closed"
)

// CreateChannel asks for a new channel.
type CreateChannel struct {
	Name    string         `json:"name"`
	Members []AgentRef     `json:"members"`
	Policy  string         `json:"member_policy"`
	TaskID  *string        `json:"task_id"`
	Options jsontext.Value `json:"options"`
}

// CheckNew checks a new channel but for its members, and returns its options.
func (doc *Channel) CheckNew() (ChannelOptions, error) {
	if doc.Name == "" || len(doc.Name) > MaxName {
		return ChannelOptions{}, NewFieldError("name", "1 to %d bytes are needed", MaxName)
	}
	doc.Members = []string{}
	if err := cmp.Or(checkMemberPolicy(doc.Policy), checkText("task_id", doc.TaskID, MaxAgentID), NormalizeJSONObject("options", &doc.Options)); err != nil {
		return ChannelOptions{}, err
	}
	return doc.ParseCheckedOptions()
}

// MaxChannel bounds the bytes of a channel's object.
const MaxChannel = 32 << 10

// channelBytes are charged for a channel's object without its name, options and members.
const channelBytes = 512

// Size returns about how many bytes the object has.
func (doc *Channel) Size() int {
	n := channelBytes + len(doc.Name) + len(doc.Options)
	for _, m := range doc.Members {
		n += len(m) + len(`"",`)
	}
	return n
}

// ParseCheckedOptions returns the options of a channel that is not too large to keep.
func (doc *Channel) ParseCheckedOptions() (ChannelOptions, error) {
	if size := len(EncodeJSONText(*doc)); size > MaxChannel {
		return ChannelOptions{}, NewError("too_large", "the channel has %d bytes: at most %d are kept: name fewer members, or shorter options", size, MaxChannel)
	}
	return ParseOptions(doc.Options)
}

// checkMemberPolicy refuses a member policy that there is not.
func checkMemberPolicy(policy string) error {
	if policy != PolicyExplicit && policy != PolicyIntent {
		return NewFieldError("member_policy", "explicit or intent")
	}
	return nil
}

// CheckAgentNames checks a list of agents as far as that needs no intent.
func CheckAgentNames(field string, list []AgentRef) error {
	if len(list) <= MaxEntries && slices.ContainsFunc(list, func(n AgentRef) bool { return !IsValidAgentName(n.AgentID) }) {
		return NewFieldError(field, "each is the id of an agent, or its name, or an object with its agent_id and home")
	}
	return CheckAtMost(field, len(list), MaxEntries, "")
}

// PatchChannel asks for a change of a channel. Members that are nil stay.
type PatchChannel struct {
	Members *[]AgentRef    `json:"members"`
	Add     []AgentRef     `json:"add_members"`
	Remove  []AgentRef     `json:"remove_members"`
	Policy  *string        `json:"member_policy"`
	Options jsontext.Value `json:"options"`
	Status  *string        `json:"status"`
}

// Check checks what can be checked without the channel.
func (p *PatchChannel) Check() error {
	if p.Status != nil && *p.Status != StatusOpen && *p.Status != StatusClosed {
		return NewFieldError("status", "open or closed")
	}
	if p.Policy != nil {
		if err := checkMemberPolicy(*p.Policy); err != nil {
			return err
		}
	}
	members := []AgentRef{}
	if p.Members != nil {
		members = *p.Members
	}
	return cmp.Or(CheckAgentNames("members", members), CheckAgentNames("add_members", p.Add), CheckAgentNames("remove_members", p.Remove))
}

// ClosesChannel reports whether the patch closes the channel.
func (p *PatchChannel) ClosesChannel() bool { return p.Status != nil && *p.Status == StatusClosed }

// ClosedChannel tells that a channel was closed and deleted.
type ClosedChannel struct {
	Status    string `json:"status"`
	ChannelID string `json:"channel_id"`
}

// PatchOptions makes a patch of the options, which may be null or nil, and returns the options.
func (doc *Channel) PatchOptions(raw jsontext.Value) (ChannelOptions, error) {
	if raw != nil && raw.Kind() != 'n' {
		var all, patch map[string]jsontext.Value
		if err := errors.Join(json.Unmarshal(doc.Options, &all), json.Unmarshal(raw, &patch)); err != nil {
			return ChannelOptions{}, NewFieldError("options", "an object is needed")
		}
		for name, v := range patch { // RFC 7396
			if v.Kind() == 'n' {
				delete(all, name)
			} else {
				all[name] = v
			}
		}
		doc.Options = EncodeJSON(all)
	}
	return doc.ParseCheckedOptions()
}
