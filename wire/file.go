package wire

import (
	"bufio"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/acpd/acpd/internal/ownwords"
)

// FileVersion is the version of the items of files.
const FileVersion = 1

// The operations with which a file's sender begins a stream.
const (
	FileOffer = "offer" // a file, which the receiver asks for in ranges
	FileRange = "range" // one of these ranges: its bytes follow the item
)

// The operations with which a file's receiver answers an offer.
const (
	FileAsked  = "asked"  // its owner is asked
	FileTake   = "take"   // it takes the file
	FileWant   = "want"   // it wants a range
	FileDone   = "done"   // it has the whole file; nothing follows
	FileRefuse = "refuse" // it does not take the file, or not the rest of it; nothing follows
)

// Limits of the fields of items of files, in bytes.
const (
	FileRangeBytes = 1 << 20 // of a range: each begins at a multiple of that, and only the last is shorter
	MaxFileName    = 1024
	MaxFileText    = 4 << 10
	maxFileMessage = 1024
)

// FileRequest is the item that begins a stream of type 0x05 (protocol, section 3).
// A version or an operation that is not known leaves the other fields unread.
type FileRequest struct {
	V  uint64
	Op string
	ID MessageID // of the file

	Name      string // offer: what its sender calls it
	Size      uint64
	Hash      [32]byte  // SHA-256 of its bytes
	Agent     string    // for which it is; "": any
	FromAgent string    // that sends it
	Ref       MessageID // of the message that it belongs to, or zero
	Thread    string
	Text      string // what it is, for its reader
	WaitMS    uint64 // how long the receiver's owner has to answer; 0: the receiver decides

	Offset, Length uint64 // range
}

// FileReply is an item that answers an offer.
type FileReply struct {
	Op string

	Offset, Length uint64 // want
	Have           uint64 // want: how many bytes the receiver has

	State ReceiptState // done: what became of the entry that reports the file, Handed or Held
	Had   bool         // done: the receiver had the file before

	Code         string // refuse: a code of package kinds
	Message      string // refuse: why, for a person
	RetryAfterMS uint64 // refuse
}

// AppendFileRequest appends a request with its length. It refuses what [ReadFileRequest] would.
func AppendFileRequest(b []byte, f *FileRequest) ([]byte, error) {
	fields := map[string]any{"v": f.V, "op": f.Op, "id": f.ID[:]}
	switch f.Op {
	case FileOffer:
		fields["name"], fields["size"], fields["sha256"] = f.Name, f.Size, f.Hash[:]
		for name, text := range map[string]string{"agent": f.Agent, "from_agent": f.FromAgent, "thread": f.Thread, "text": f.Text} {
			if text != "" {
				fields[name] = text
			}
		}
		if !f.Ref.IsZero() {
			fields["ref"] = f.Ref[:]
		}
		if f.WaitMS > 0 {
			fields["wait_ms"] = f.WaitMS
		}
	case FileRange:
		fields["offset"], fields["length"] = f.Offset, f.Length
	default:
		return b, ownwords.Errorf("encode file item: %q is no operation", f.Op)
	}
	if err := f.checkFields(); err != nil {
		return b, ownwords.Errorf("encode file item: %w", err)
	}
	return appendItem(b, fields)
}

// AppendFileReply appends a reply with its length. A longer message is cut.
func AppendFileReply(b []byte, f *FileReply) ([]byte, error) {
	cut := *f
	cut.Message = cutText(f.Message, maxFileMessage)
	if err := cut.checkFields(); err != nil {
		return b, ownwords.Errorf("encode file item: %w", err)
	}
	fields := map[string]any{"op": f.Op}
	switch f.Op {
	case FileAsked, FileTake:
	case FileWant:
		fields["offset"], fields["length"], fields["have"] = f.Offset, f.Length, f.Have
	case FileDone:
		fields["state"], fields["had"] = f.State.String(), f.Had
	case FileRefuse:
		fields["code"], fields["message"] = f.Code, cut.Message
		if f.RetryAfterMS > 0 {
			fields["retry_after_ms"] = f.RetryAfterMS
		}
	}
	return appendItem(b, fields)
}

func appendItem(b []byte, fields map[string]any) ([]byte, error) {
	body, err := MarshalCBOR(fields)
	if err != nil {
		return b, ownwords.Errorf("encode item: %w", err)
	}
	return append(appendVarint(b, uint64(len(body))), body...), nil
}

// cutText returns text, of at most so many bytes.
func cutText(text string, most int) string {
	for len(text) > most {
		_, n := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-n]
	}
	return text
}

// ReadFileRequest reads a request. It blocks until the item is whole; one that does not decode is a
// [FormatError]. What follows the item is left in r.
func ReadFileRequest(r *bufio.Reader) (*FileRequest, error) {
	v, err := readItemBody(r)
	if err != nil {
		return nil, err
	}
	f := new(FileRequest)
	err = v.readFields("", func(key []byte, v cborValue) (err error) {
		switch string(key) {
		case "v":
			f.V, err = v.readUint()
		case "op":
			f.Op, err = v.readText()
		}
		return err
	}, "v", "op")
	if err != nil || f.V != FileVersion {
		return f, err
	}
	var required []string
	switch f.Op {
	case FileOffer:
		required = []string{"id", "name", "size", "sha256"}
	case FileRange:
		required = []string{"id", "offset", "length"}
	default:
		return f, nil
	}
	err = v.readFields("", func(key []byte, v cborValue) (err error) {
		switch string(key) {
		case "id":
			err = v.readBytesInto(f.ID[:])
		case "name":
			f.Name, err = v.readText()
		case "size":
			f.Size, err = v.readUint()
		case "sha256":
			err = v.readBytesInto(f.Hash[:])
		case "agent":
			f.Agent, err = v.readText()
		case "from_agent":
			f.FromAgent, err = v.readText()
		case "ref":
			err = v.readBytesInto(f.Ref[:])
		case "thread":
			f.Thread, err = v.readText()
		case "text":
			f.Text, err = v.readText()
		case "wait_ms":
			f.WaitMS, err = v.readUint()
		case "offset":
			f.Offset, err = v.readUint()
		case "length":
			f.Length, err = v.readUint()
		}
		return err
	}, required...)
	if err == nil {
		err = f.checkFields()
	}
	return f, err
}

// ReadFileReply reads a reply. One that does not decode is a [FormatError].
func ReadFileReply(r *bufio.Reader) (*FileReply, error) {
	v, err := readItemBody(r)
	if err != nil {
		return nil, err
	}
	f := new(FileReply)
	state := ""
	err = v.readFields("", func(key []byte, v cborValue) (err error) {
		switch string(key) {
		case "op":
			f.Op, err = v.readText()
		case "offset":
			f.Offset, err = v.readUint()
		case "length":
			f.Length, err = v.readUint()
		case "have":
			f.Have, err = v.readUint()
		case "state":
			state, err = v.readText()
		case "had":
			f.Had, err = v.readBool()
		case "code":
			f.Code, err = v.readText()
		case "message":
			f.Message, err = v.readText()
		case "retry_after_ms":
			f.RetryAfterMS, err = v.readUint()
		}
		return err
	}, "op")
	if err == nil && f.Op == FileDone {
		f.State = Refused // which done cannot say
		for _, s := range []ReceiptState{Handed, Held} {
			if s.String() == state {
				f.State = s
			}
		}
	}
	if err == nil {
		err = f.checkFields()
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

func readItemBody(r *bufio.Reader) (cborValue, error) {
	body, err := readFrame(r)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	return parseValue(body)
}

func (f *FileRequest) checkFields() error {
	for _, field := range []struct {
		name, text string
		most       int
	}{
		{"name", f.Name, MaxFileName},
		{"agent", f.Agent, MaxLabel},
		{"from_agent", f.FromAgent, MaxLabel},
		{"thread", f.Thread, MaxLabel},
		{"text", f.Text, MaxFileText},
	} {
		if len(field.text) > field.most {
			return newFormatError(field.name, fmt.Sprintf("%d bytes: expected at most %d", len(field.text), field.most))
		}
	}
	switch {
	case f.ID.IsZero():
		return newFormatError("id", "zero")
	case f.Op == FileRange:
		return checkFileRange(f.Offset, f.Length)
	}
	return nil
}

func (f *FileReply) checkFields() error {
	switch f.Op {
	case FileAsked, FileTake:
		return nil
	case FileWant:
		return checkFileRange(f.Offset, f.Length)
	case FileDone:
		if f.State != Handed && f.State != Held {
			return newFormatError("state", "unknown")
		}
		return nil
	case FileRefuse:
		if f.Code == "" || len(f.Code) > MaxLabel {
			return newFormatError("code", fmt.Sprintf("%d bytes: expected 1 to %d", len(f.Code), MaxLabel))
		}
		if len(f.Message) > maxFileMessage {
			return newFormatError("message", fmt.Sprintf("%d bytes: expected at most %d", len(f.Message), maxFileMessage))
		}
		return nil
	}
	return newFormatError("op", "unknown")
}

func checkFileRange(offset, length uint64) error {
	if offset%FileRangeBytes != 0 || length == 0 || length > FileRangeBytes {
		return newFormatError("offset", fmt.Sprintf("%d bytes from %d: expected at most %d, from a multiple of that", length, offset, FileRangeBytes))
	}
	return nil
}
