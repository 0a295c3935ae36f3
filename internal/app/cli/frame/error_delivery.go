package frame

import (
	"errors"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// arrival holds what the details of an error say of the message that the error is about.
type arrival struct {
	Delivered kinds.Delivered `json:"delivered"`
	ID        wire.MessageID  `json:"id,omitzero"` // under which it can be repeated
	Reason    kinds.Reason    `json:"reason,omitzero"`
}

// WithRepeatID names, in an error that says whether a message was delivered, the id under
// which it can be repeated.
func WithRepeatID(err error, id wire.MessageID) error {
	e, ok := errors.AsType[*kinds.Error](err)
	if !ok || e.Delivered() == "" || e.Code == kinds.Kept || id.IsZero() { // one that is kept is not repeated
		return err
	}
	told := *e
	told.Message = strings.Replace(e.Message, "the same id", "--id "+id.String(), 1)
	if details, err := json.Marshal(arrival{e.Delivered(), id, e.Reason()}); err == nil {
		told.Details = details
	}
	return &told
}

// DescribeDelivery returns the end of an error's text: whether the message was delivered, and
// how to repeat it. It returns "" if the daemon does not say, or if the message was refused or
// never sent.
func DescribeDelivery(e *kinds.Error) string {
	var a arrival
	if len(e.Details) == 0 || json.Unmarshal(e.Details, &a) != nil || a.Delivered == "" {
		return ""
	}
	lost := e.Code == kinds.Unreachable || e.Code == kinds.Timeout || a.Delivered == kinds.DeliveredUnknown
	if !lost && (a.ID.IsZero() || a.Delivered == kinds.DeliveredNo) {
		return ""
	}
	said := "; delivered: " + string(a.Delivered)
	if e.Reason() == kinds.ReasonParentEnded { // a repeat would end at once
		return "; --parent '' names none" + said
	}
	if remedy := "--id " + a.ID.String(); !a.ID.IsZero() && !strings.Contains(e.Message, remedy) {
		said += "; repeat it with " + remedy
	}
	return said
}
