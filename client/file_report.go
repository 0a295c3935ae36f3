package client

import (
	"path"
	"strings"

	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// ReadFileReport returns the report of a file that a message is, or nil if it is none. It is the daemon's only if the
// daemon has just handed it over: see [HeldMessage.FileReport].
func ReadFileReport(e *wire.Envelope) *FileNotice {
	n, err := kinds.ParsePayload[kinds.Notify](e.Payload)
	if e.Kind != kinds.KindNotify || err != nil || n.Topic != FileTopic {
		return nil
	}
	report, err := kinds.ParsePayload[FileNotice](wire.Payload(n.Data))
	if err != nil {
		return nil
	}
	return report
}

// FileReport returns the report of a file that the message is, or nil if it is none that this daemon has made.
func (m *HeldMessage) FileReport() *FileNotice {
	if m.Origin != OriginDaemon {
		return nil
	}
	return ReadFileReport(&m.Envelope)
}

// EncodeReport returns the payload of the notify that reports the file. It has what the peer says of it.
func (f *File) EncodeReport() wire.Payload {
	notice := FileNotice{ID: f.ID, Name: f.Name, Size: f.Size, SHA256: f.SHA256, Text: f.Text, Ref: f.Ref}
	return kinds.EncodePayload(&kinds.Notify{Topic: FileTopic, Data: kinds.EncodePayload(&notice).Object()})
}

// NewReport returns the message that reports the file. petname is the peer's, and answer how a model may answer.
func (f *File) NewReport(petname, answer string) PeerMessage {
	return PeerMessage{
		Peer: petname, ID: f.Peer, Agent: f.FromAgent, Kind: kinds.KindNotify, Message: f.ID, Ref: f.Ref, Answer: answer, Payload: f.EncodeReport(),
	}
}

// AgentThere returns the agent of the peer that the file is for, or of.
func (f *File) AgentThere() string {
	if f.Direction == Out {
		return f.Agent
	}
	return f.FromAgent
}

// maxEnding is how many characters an ending of a file's name has at most.
const maxEnding = 8

// Ending returns how the file's name ends, like .log, or "" if it has no ending of a few letters a to z and digits.
// Of the words of a peer, only this is fit for a path.
func (f *File) Ending() string {
	ending := strings.ToLower(path.Ext(f.Name))
	isOther := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }
	if len(ending) < 2 || len(ending) > 1+maxEnding || strings.ContainsFunc(ending[1:], isOther) {
		return ""
	}
	return ending
}
