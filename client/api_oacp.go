package client

import (
	"context"
	"time"
)

// The methods for OACP mail between machines.
const (
	MethodOACPBind     = "oacp.bind"
	MethodOACPUnbind   = "oacp.unbind"
	MethodOACPBindings = "oacp.bindings"
	MethodOACPQueue    = "oacp.queue"
	MethodOACPDrop     = "oacp.drop"
)

// BindingMode says when the copy here of a mail for a bound agent is removed.
type BindingMode string

// The modes of a binding.
const (
	ModeMirror   BindingMode = "mirror"    // when the agent at the peer is done with its own
	ModeOnStored BindingMode = "on-stored" // some time, the linger, after the mail is stored there
)

// OACPBindParams are the params of oacp.bind: from now on the agent lives at the
// peer, and its mail goes there.
type OACPBindParams struct {
	Project    string      `json:"project"`
	Agent      string      `json:"agent"`
	Peer       string      `json:"peer"`
	Mode       BindingMode `json:"mode,omitzero"`        // "": ModeMirror
	LingerSecs uint64      `json:"linger_secs,omitzero"` // with on-stored; 0: the daemon's default
	Take       bool        `json:"take,omitzero"`        // bind also an agent that has sent from here, and has moved
}

// OACPUnbindParams are the params of oacp.unbind: the agent lives here again.
type OACPUnbindParams struct {
	Project string `json:"project"`
	Agent   string `json:"agent"`
}

// OACPBinding is the result of oacp.bind and oacp.unbind, and a row of
// oacp.bindings.
type OACPBinding struct {
	Project    string      `json:"project"`
	Agent      string      `json:"agent"`
	Peer       string      `json:"peer"` // petname, or the id if it has no petname any more
	Mode       BindingMode `json:"mode"`
	LingerSecs uint64      `json:"linger_secs"`
}

// OACPBindingsParams are the params of oacp.bindings.
type OACPBindingsParams struct {
	Project string `json:"project,omitzero"` // "": all
}

// OACPBindings is the result of oacp.bindings.
type OACPBindings struct {
	Bindings []OACPBinding `json:"bindings"`
	Twins    []OACPTwin    `json:"twins,omitempty"`
	Home     string        `json:"home,omitzero"` // as in OACPQueue
}

// OACPTwin is an agent that lives here and, as a connected peer claims, there too.
type OACPTwin struct {
	Project string `json:"project"`
	Agent   string `json:"agent"`
	Peer    string `json:"peer"` // a name, or an id
}

// MailState says how far a mail has come.
type MailState string

// The states of mail for a bound agent, and of mail that came.
const (
	MailWaiting   MailState = "waiting"   // to be delivered
	MailDelivered MailState = "delivered" // stored at the peer; the copy here goes later
	MailParked    MailState = "parked"    // not carried; the reason says why
	MailArrived   MailState = "arrived"   // only in events: it came from the peer
)

// OACPQueueParams are the params of oacp.queue.
type OACPQueueParams struct {
	Project string `json:"project,omitzero"` // "": all
	After   string `json:"after,omitzero"`   // Next of the answer that this one continues

	// With the project, these two ask for one file: also for one that is gone, or whose
	// agent is bound no more, if it was delivered.
	Agent string `json:"agent,omitzero"`
	File  string `json:"file,omitzero"`
}

// OACPQueue is the result of oacp.queue: what is in the inboxes of bound agents.
type OACPQueue struct {
	Entries []OACPQueued `json:"entries"`
	Next    string       `json:"next"`          // the After that continues; "": there is no more
	Home    string       `json:"home,omitzero"` // of the mailboxes whose mail the daemon carries, absolute
}

// OACPQueued is one file in the inbox of a bound agent.
type OACPQueued struct {
	Project string    `json:"project"`
	Agent   string    `json:"agent"`
	Peer    string    `json:"peer"` // as in OACPBinding
	File    string    `json:"file"`
	SHA256  string    `json:"sha256"` // "": it was not read
	Size    int64     `json:"size"`
	State   MailState `json:"state"`
	Reason  string    `json:"reason"` // "": there is nothing to say
	Since   time.Time `json:"since"`  // when it was delivered; before that, when it was last changed
}

// OACPDropParams are the params of oacp.drop: the file goes from the inbox of a
// bound agent into its dead_letter folder.
type OACPDropParams struct {
	Project string `json:"project"`
	Agent   string `json:"agent"`
	File    string `json:"file"`
}

// OACPDropped is the result of oacp.drop.
type OACPDropped struct {
	Path string `json:"path"` // where the file is now, below the OACP home
}

// MailEvent is the details of the event mail.
type MailEvent struct {
	Project string    `json:"project"`
	Agent   string    `json:"agent"` // the recipient
	File    string    `json:"file"`  // its name in the recipient's inbox here
	SHA256  string    `json:"sha256,omitzero"`
	State   MailState `json:"state"`
	Reason  string    `json:"reason,omitzero"`
}

// OACPBind binds an agent to a peer: from now on it lives there, and its mail goes there.
func (c *Client) OACPBind(ctx context.Context, p OACPBindParams) (*OACPBinding, error) {
	return callBounded[OACPBinding](ctx, c, MethodOACPBind, &p)
}

// OACPUnbind ends the binding of an agent, which lives here from now on. It returns the
// binding that was.
func (c *Client) OACPUnbind(ctx context.Context, p OACPUnbindParams) (*OACPBinding, error) {
	return callBounded[OACPBinding](ctx, c, MethodOACPUnbind, &p)
}

// OACPBindings returns the bindings of a project, or of all for "".
func (c *Client) OACPBindings(ctx context.Context, project string) ([]OACPBinding, error) {
	r, err := callBounded[OACPBindings](ctx, c, MethodOACPBindings, &OACPBindingsParams{Project: project})
	return r.Bindings, err
}

// OACPTwins returns the agents of a project, or of all for "", that live here and, as a
// connected peer claims, there too.
func (c *Client) OACPTwins(ctx context.Context, project string) ([]OACPTwin, error) {
	r, err := callBounded[OACPBindings](ctx, c, MethodOACPBindings, &OACPBindingsParams{Project: project})
	return r.Twins, err
}

// OACPHome returns the home of the mailboxes whose mail the daemon carries; "" from
// a daemon that does not say it.
func (c *Client) OACPHome(ctx context.Context) (string, error) {
	r, err := callBounded[OACPBindings](ctx, c, MethodOACPBindings, &OACPBindingsParams{})
	return r.Home, err
}

// OACPQueue returns what is in the inboxes of a project's bound agents, or of all
// projects' for "".
func (c *Client) OACPQueue(ctx context.Context, project string) ([]OACPQueued, error) {
	var all []OACPQueued
	for p := (OACPQueueParams{Project: project}); ; {
		r, err := c.OACPQueuePage(ctx, p)
		if err != nil {
			return nil, err
		}
		all = append(all, r.Entries...)
		if p.After = r.Next; p.After == "" {
			return all, nil
		}
	}
}

// OACPQueuePage returns a page of what OACPQueue returns. For the page that follows, set p.After to its
// Next.
func (c *Client) OACPQueuePage(ctx context.Context, p OACPQueueParams) (*OACPQueue, error) {
	return callBounded[OACPQueue](ctx, c, MethodOACPQueue, &p)
}

// OACPFile returns what became of a file that was put into the inbox of a bound agent;
// nil if it is not in the queue and was not delivered.
func (c *Client) OACPFile(ctx context.Context, project, agent, file string) (*OACPQueued, error) {
	r, err := callBounded[OACPQueue](ctx, c, MethodOACPQueue, &OACPQueueParams{Project: project, Agent: agent, File: file})
	if err != nil || len(r.Entries) == 0 {
		return nil, err
	}
	return &r.Entries[0], nil
}

// OACPDrop gives up a file that is for another machine: it goes into the agent's dead_letter
// folder. OACPDropped says where it is then.
func (c *Client) OACPDrop(ctx context.Context, p OACPDropParams) (*OACPDropped, error) {
	return callBounded[OACPDropped](ctx, c, MethodOACPDrop, &p)
}
