package client

import (
	"path"
	"strings"

	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// ReadFileReport returns the report of a file from a message that the daemon has just handed over, or nil if the
// message is another one. Of messages in the inbox, use [HeldMessage.FileReport], since a peer may have sent them.
func ReadFileReport(e *wire.Envelope) *FileReport {
	n, err := kinds.ParsePayload[kinds.Notify](e.Payload)
	if e.Kind != kinds.KindNotify || err != nil || n.Topic != FileTopic {
		return nil
	}
	report, err := kinds.ParsePayload[FileReport](wire.Payload(n.Data))
	if err != nil {
		return nil
	}
	return report
}

// FileReport returns the report of a file from the message, or nil if this daemon has made no report of it.
func (m *HeldMessage) FileReport() *FileReport {
	if m.Origin != OriginDaemon {
		return nil
	}
	return ReadFileReport(&m.Envelope)
}

// EncodeReport returns the payload of the notify that reports the file. The name and the text are the peer's words.
func (f *File) EncodeReport() wire.Payload {
	notice := FileReport{ID: f.ID, Name: f.Name, Size: f.Size, SHA256: f.SHA256, Text: f.Text, Ref: f.Ref}
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
