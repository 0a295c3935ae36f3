package object

import (
	"cmp"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
)

// Intent is the object of RFC-0001, as it is answered and stored.
type Intent struct {
	ID          string         `json:"id"`
	Title       string         `json:"title"`
	Description string         `json:"description"`
	Version     int64          `json:"version"`
	Status      string         `json:"status"`
	State       jsontext.Value `json:"state"`
	Constraints jsontext.Value `json:"constraints"`
	Parent      *string        `json:"parent_intent_id"`
	ParentID    *string        `json:"parent_id"` // the same: servers and clients differ in its name
	DependsOn   []string       `json:"depends_on"`
	CreatedBy   string         `json:"created_by"`
	CreatedAt   chain.Time     `json:"created_at"`
	UpdatedAt   chain.Time     `json:"updated_at"`
	Confidence  int64          `json:"confidence"`
	Governance  jsontext.Value `json:"governance_policy"`
	Host        string         `json:"host,omitzero"` // in lists: the daemon on which it lives, if that is another
}

const (
	statusDraft     = "draft"
	statusCompleted = "completed"
	statusAbandoned = "abandoned"
)

const maxTitle = 1024 // bytes of an intent's title, or of a task's name

var IntentStatuses = []string{statusDraft, "active", "blocked", "suspended_awaiting_input", statusCompleted, statusAbandoned}

// IsTerminalStatus reports whether an intent with that status is over for good.
func IsTerminalStatus(status string) bool {
	return status == statusCompleted || status == statusAbandoned
}

// CreateIntent asks for a new intent.
type CreateIntent struct {
	Title       string         `json:"title"`
	Description string         `json:"description"`
	Constraints jsontext.Value `json:"constraints"`
	State       jsontext.Value `json:"state"`
	CreatedBy   string         `json:"created_by"`
	Parent      *string        `json:"parent_intent_id"`
	DependsOn   []string       `json:"depends_on"`
	Confidence  int64          `json:"confidence"`
	Governance  jsontext.Value `json:"governance_policy"`
}

// IntentList describes a list of intents.
type IntentList struct {
	Intents []Intent `json:"intents"`
}

// StatusChange asks for a new status of an intent, an agent or a message.
type StatusChange struct {
	Status string `json:"status"`
	Reason string `json:"reason,omitzero"`
}

// CheckStatus refuses a status that is not in the list, and a reason that is too long.
func (s *StatusChange) CheckStatus(statuses []string) error {
	return cmp.Or(CheckOneOf("status", s.Status, statuses), CheckAtMost("reason", len(s.Reason), maxText, " bytes"))
}

// NewIntent checks what was asked for, and returns the object of the new intent, without its id and times.
func (want *CreateIntent) NewIntent(creator string) (Intent, error) {
	if want.Title == "" || len(want.Title) > maxTitle {
		return Intent{}, NewFieldError("title", "1 to %d bytes are needed", maxTitle)
	}
	if err := CheckAtMost("depends_on", len(want.DependsOn), MaxEntries, ""); err != nil {
		return Intent{}, err
	}
	if want.Constraints.Kind() == '[' { // the form of older clients
		want.Constraints = jsontext.Value(`{"rules":` + string(want.Constraints) + `}`)
	}
	if err := cmp.Or(NormalizeJSONObject("state", &want.State), NormalizeJSONObject("constraints", &want.Constraints)); err != nil {
		return Intent{}, err
	}
	if want.Governance == nil || want.Governance.Kind() == 'n' {
		want.Governance = jsontext.Value("null")
	} else if err := NormalizeJSONObject("governance_policy", &want.Governance); err != nil {
		return Intent{}, err
	}
	if len(want.State) > MaxState {
		return Intent{}, NewError("too_large", "state: %d bytes, at most %d are kept; put large data elsewhere and refer to it", len(want.State), MaxState)
	}
	return Intent{
		Title: want.Title, Description: want.Description, Version: 1, Status: statusDraft, State: want.State, Constraints: want.Constraints,
		Parent: want.Parent, ParentID: want.Parent, DependsOn: append([]string{}, want.DependsOn...), CreatedBy: creator, Confidence: want.Confidence, Governance: want.Governance,
	}, nil
}
