package client

import (
	"strings"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// The methods for files. [Client.SendFile] and [Client.TakeFile] call the first two, each on a connection of its
// own: after the answer, the connection carries the file.
const (
	MethodFileSend   = "file.send"
	MethodFileTake   = "file.take"
	MethodFiles      = "files"
	MethodFileRemove = "file.remove"
	MethodFileAsk    = "file.ask"
)

// FileTopic is the topic of the inbox entry by which a daemon reports a file that has come. Only the daemon makes
// such entries: a message whose topic begins with [ReservedTopic] is refused.
const (
	FileTopic     = ReservedTopic + "file"
	ReservedTopic = "acp."
)

// FileReport is the data of the notify with FileTopic. Name and Text are the peer's words.
type FileReport struct {
	ID     wire.MessageID `json:"id"`
	Name   string         `json:"name"`
	Size   uint64         `json:"size"`
	SHA256 string         `json:"sha256"`
	Text   string         `json:"text,omitzero"`
	Ref    wire.MessageID `json:"ref,omitzero"`
}

// CheckTopic returns an error if only a daemon may send a notify with a topic.
func CheckTopic(topic string) error {
	if !strings.HasPrefix(topic, ReservedTopic) {
		return nil
	}
	return kinds.Errorf(kinds.Invalid, "topic: those that begin with %s are for what a daemon reports itself: use another", ReservedTopic)
}

// FileSendParams are the params of file.send. The answer is {}; after it the daemon sends lines, each a
// FileSendLine, and the client answers each line with a range by exactly so many bytes of the file.
type FileSendParams struct {
	Head                  // a call with the same id, hash and size continues an earlier one
	To     string         `json:"to"`               // the peer
	Agent  string         `json:"agent,omitzero"`   // the agent there that the file is for; "": any
	Name   string         `json:"name"`             // its last component is what the receiver sees
	Size   uint64         `json:"size"`             // in bytes
	SHA256 string         `json:"sha256"`           // 64 hex digits
	Text   string         `json:"text,omitzero"`    // what it is, at most MaxFileText bytes
	Ref    wire.MessageID `json:"ref,omitzero"`     // the delegation or message that the file belongs to
	WaitMS uint64         `json:"wait_ms,omitzero"` // how long the receiver's owner has for an answer; 0: 10 minutes; at most 24 h
}

// MaxFileText is the largest text about a file, in bytes.
const MaxFileText = wire.MaxFileText

// FileSendLine is one line of the daemon to a client that sends a file. Exactly one of State, Range, Done and Error is
// set.
type FileSendLine struct {
	State FileState      `json:"state,omitzero"` // FileAsked or FileMoving, with ID
	Relay bool           `json:"relay,omitzero"` // with FileMoving: over a relay, at most 1 MiB a second
	ID    wire.MessageID `json:"id,omitzero"`

	Range *[2]uint64   `json:"range,omitzero"` // offset and length, which the client answers by these bytes
	Moved uint64       `json:"moved,omitzero"` // with Range: how many bytes the receiver has so far
	Done  *FileSent    `json:"done,omitzero"`  // the end: the receiver has the whole file
	Error *kinds.Error `json:"error,omitzero"` // the end: it has not
}

// FileSent is how a file arrived.
type FileSent struct {
	ID    wire.MessageID `json:"id"`
	State ReceiptState   `json:"state"`        // Handed or Held: the entry that reports it
	Had   bool           `json:"had,omitzero"` // the receiver had the file already; then Handed says that the entry has left the inbox
}

// FileTakeParams are the params of file.take, whose result is the File. After it the connection carries the
// file's bytes, and ends. An agent gets what is for it or, once, what is for any agent.
type FileTakeParams struct {
	ID   wire.MessageID `json:"id"`
	Peer string         `json:"peer,omitzero"` // needed only if two peers sent a file under this id
}

// FileState says how far a file came.
type FileState string

// The states of a file.
const (
	FileAsked  FileState = "asked"  // the receiver's owner is asked: acpctl approvals
	FileMoving FileState = "moving" // its bytes are on their way
	FilePaused FileState = "paused" // some of it is there, and its sender is not sending; it is kept for 24 h
	FileHere   FileState = "here"   // it is whole
	FileTaken  FileState = "taken"  // it is whole, and an agent has taken it
)

// File is a row of files: one that came or comes from a peer, or is being sent to one.
type File struct {
	ID        wire.MessageID   `json:"id"`
	Direction MessageDirection `json:"direction"`
	Peer      identity.ID      `json:"peer"`
	PeerName  string           `json:"peer_name"`
	Agent     string           `json:"agent,omitzero"`      // the agent it is for; "": any
	FromAgent string           `json:"from_agent,omitzero"` // the agent that sent it, as the peer claims
	Name      string           `json:"name"`                // the peer's word: never a path
	Size      uint64           `json:"size"`
	SHA256    string           `json:"sha256"`
	Text      string           `json:"text,omitzero"` // the peer's word
	Ref       wire.MessageID   `json:"ref,omitzero"`
	Thread    string           `json:"thread,omitzero"`
	State     FileState        `json:"state"`
	Bytes     uint64           `json:"bytes"` // how many are there
	Since     time.Time        `json:"since"`
	Until     Time             `json:"until,omitzero"`    // when it is removed; zero while it moves
	TakenBy   string           `json:"taken_by,omitzero"` // the agent
}

// FilesParams are the params of files, whose result is Files. An agent sees what is for it or for any agent, and
// what it sends.
type FilesParams struct {
	ID    wire.MessageID `json:"id,omitzero"`     // zero: all
	Peers []string       `json:"peers,omitempty"` // empty: all
	Ref   wire.MessageID `json:"ref,omitzero"`    // zero: all; else only files that belong to this message
	After uint64         `json:"after,omitzero"`  // Next of the answer before
	Limit int            `json:"limit,omitzero"`  // of those that came; 0: as many as fit
}

// Files is the result of files: first what waits for the owner and what is being sent, with the beginnings of their
// texts, then what came, each the newest first.
type Files struct {
	Files []File `json:"files"`
	Next  uint64 `json:"next,omitzero"` // there are more
}

// FileRemoveParams are the params of file.remove, whose result is the File that was removed.
type FileRemoveParams struct {
	ID   wire.MessageID `json:"id"`
	Peer string         `json:"peer,omitzero"` // as in FileTakeParams
}

// FileAskParams are the params of file.ask, whose result is {}: the owner is asked again before files of a peer are
// taken, after an earlier answer "always".
type FileAskParams struct {
	Peer string `json:"peer"`
}
