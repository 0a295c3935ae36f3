package mcp

import (
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// messageIDs are the ids in a message's parameters.
type messageIDs struct {
	RequestID jsontext.Value `json:"requestId"` // which request is cancelled
	Meta      struct {
		ProgressToken jsontext.Value `json:"progressToken"` // of a request: its progress is reported with this token
	} `json:"_meta"`
	ProgressToken jsontext.Value `json:"progressToken"` // of a progress notification
}

// methodCancelled and methodProgress are notifications.
const (
	methodCancelled = "notifications/cancelled"
	methodProgress  = "notifications/progress"
)

// readIDs returns the ids in parameters; those that cannot be read are missing.
func readIDs(params []byte) (ids messageIDs) {
	json.Unmarshal(params, &ids, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	return ids
}

// idValue returns an id as the SDK reads it: a string, a float64, or nil for what is neither.
func idValue(id jsontext.Value) (v any) {
	if k := id.Kind(); k == '"' || k == '0' {
		json.Unmarshal(id, &v, jsontext.AllowInvalidUTF8(true))
	}
	return v
}

// checkIDs returns the answer to a message with an id that the SDK would change, or "" if no id changes.
// The SDK reads numbers as doubles, and half of a surrogate pair as U+FFFD.
func checkIDs(message []byte) string {
	var m struct {
		lineCall
		Params jsontext.Value `json:"params"`
	}
	if json.Unmarshal(message, &m, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)) != nil {
		return "" // the SDK refuses it
	}
	ids := readIDs(m.Params)
	switch {
	case !comesBack(m.ID):
		return refuse(m.lineCall, codeInvalid, "id: "+expectedID)
	case !comesBack(ids.Meta.ProgressToken):
		return refuse(m.lineCall, codeInvalid, "progressToken: "+expectedID)
	case m.Method == methodCancelled && !comesBack(ids.RequestID):
		return refuse(m.lineCall, codeInvalid, "requestId: "+expectedID)
	}
	return ""
}

const (
	maxID      = 1<<53 - 1 // doubles hold each integer up to here
	expectedID = "expected a string, or an integer of at most 9007199254740991"
)

// comesBack reports whether an id is one that comes back as it was written, or is missing.
func comesBack(id jsontext.Value) bool {
	switch id.Kind() {
	case '"':
		return id.IsValid()
	case '0':
		n, err := strconv.ParseInt(string(id), 10, 64)
		return err == nil && -maxID <= n && n <= maxID && strconv.FormatInt(n, 10) == string(id)
	}
	return len(id) == 0 || id.Kind() == 'n'
}
