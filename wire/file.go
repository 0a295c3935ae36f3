package wire

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
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
	Agent     string    // the agent that it is for; "": any
	FromAgent string    // the agent that sends it
	Ref       MessageID // of the message that it belongs to, or zero
	Thread    string
	Hops      uint64 // messages that led to it
	Text      string // what it is, for its reader
	WaitMS    uint64 // how long the receiver's owner has to answer; 0: the receiver decides

	Offset, Length uint64 // range
}

// FileReply is an item that answers an offer.
type FileReply struct {
	Op string

	Offset, Length uint64 // want
	Have           uint64 // want: how many bytes the receiver has

	State string // done: what became of the entry that reports the file: handed or held
	Had   bool   // done: the receiver had the file before

	Code         string // refuse: a code of package kinds
	Message      string // refuse: why, for a person
	RetryAfterMS uint64 // refuse
}

// itemField is a field of an item.
type itemField struct {
	name  string
	value any // *string, *uint64, *bool, or a []byte of the field's length
	most  int // bytes of text
}

func (f *FileRequest) listFields() (required, optional []itemField) {
	id := itemField{"id", f.ID[:], 0}
	switch f.Op {
	case FileOffer:
		return []itemField{id, {"name", &f.Name, MaxFileName}, {"size", &f.Size, 0}, {"sha256", f.Hash[:], 0}},
			[]itemField{{"agent", &f.Agent, MaxLabel}, {"from_agent", &f.FromAgent, MaxLabel}, {"ref", f.Ref[:], 0}, {"thread", &f.Thread, MaxLabel}, {"hops", &f.Hops, 0}, {"text", &f.Text, MaxFileText}, {"wait_ms", &f.WaitMS, 0}}
	case FileRange:
		return []itemField{id, {"offset", &f.Offset, 0}, {"length", &f.Length, 0}}, nil
	}
	return nil, nil
}

func (f *FileReply) listFields() (required, optional []itemField) {
	switch f.Op {
	case FileWant:
		return []itemField{{"offset", &f.Offset, 0}, {"length", &f.Length, 0}, {"have", &f.Have, 0}}, nil
	case FileDone:
		return []itemField{{"state", &f.State, MaxLabel}, {"had", &f.Had, 0}}, nil
	case FileRefuse:
		return []itemField{{"code", &f.Code, MaxLabel}, {"message", &f.Message, maxFileMessage}}, []itemField{{"retry_after_ms", &f.RetryAfterMS, 0}}
	}
	return nil, nil
}

// AppendFileRequest appends a request with its length. It refuses what [ReadFileRequest] would.
func AppendFileRequest(b []byte, f *FileRequest) ([]byte, error) {
	if err := f.checkFields(); err != nil {
		return b, ownwords.Errorf("encode file item: %w", err)
	}
	required, optional := f.listFields()
	return appendFields(b, map[string]any{"v": f.V, "op": f.Op}, required, optional)
}

// AppendFileReply appends a reply with its length. A longer message is cut.
func AppendFileReply(b []byte, f *FileReply) ([]byte, error) {
	cut := *f
	cut.Message = cutText(f.Message, maxFileMessage)
	required, optional := cut.listFields()
	return appendFields(b, map[string]any{"op": f.Op}, required, optional)
}

// appendFields appends an item with fields. It leaves out optional ones that are zero.
func appendFields(b []byte, fields map[string]any, required, optional []itemField) ([]byte, error) {
	for i, x := range slices.Concat(required, optional) {
		value, isZero := x.get()
		if i < len(required) || !isZero {
			fields[x.name] = value
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
	if err := v.readItemFields([]itemField{{"v", &f.V, 0}, {"op", &f.Op, MaxLabel}}, nil); err != nil || f.V != FileVersion {
		return f, err
	}
	required, optional := f.listFields()
	if required == nil {
		return f, nil
	}
	err = v.readItemFields(required, optional)
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
	err = v.readItemFields([]itemField{{"op", &f.Op, MaxLabel}}, nil)
	if err == nil {
		err = v.readItemFields(f.listFields())
	}
	if err == nil {
		err = f.checkFields()
	}
	return f, err
}

// readItemBody reads the map of an item.
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

// readItemFields reads fields, and ignores others.
func (v cborValue) readItemFields(required, optional []itemField) error {
	names := make([]string, len(required))
	for i, x := range required {
		names[i] = x.name
	}
	all := slices.Concat(required, optional)
	return v.readFields("", func(key []byte, v cborValue) error {
		for _, x := range all {
			if x.name == string(key) {
				return x.set(v)
			}
		}
		return nil
	}, names...)
}

func (x itemField) get() (value any, isZero bool) {
	switch v := x.value.(type) {
	case *string:
		return *v, *v == ""
	case *uint64:
		return *v, *v == 0
	case *bool:
		return *v, !*v
	}
	b := x.value.([]byte)
	return b, len(bytes.Trim(b, "\x00")) == 0
}

func (x itemField) set(v cborValue) (err error) {
	switch to := x.value.(type) {
	case *string:
		*to, err = v.readText()
	case *uint64:
		*to, err = v.readUint()
	case *bool:
		*to, err = v.readBool()
	case []byte:
		err = v.readBytesInto(to)
	}
	return err
}

// checkTexts returns an error if a text is too long.
func checkTexts(required, optional []itemField) error {
	for _, x := range slices.Concat(required, optional) {
		if text, ok := x.value.(*string); ok && len(*text) > x.most {
			return newFormatError(x.name, fmt.Sprintf("%d bytes: expected at most %d", len(*text), x.most))
		}
	}
	return nil
}

func (f *FileRequest) checkFields() error {
	switch {
	case f.ID.IsZero():
		return newFormatError("id", "zero")
	case f.Op == FileRange:
		return checkFileRange(f.Offset, f.Length)
	case f.Op != FileOffer:
		return newFormatError("op", "unknown")
	}
	return checkTexts(f.listFields())
}

func (f *FileReply) checkFields() error {
	switch f.Op {
	case FileAsked, FileTake:
	case FileWant:
		return checkFileRange(f.Offset, f.Length)
	case FileDone:
		if f.State != Handed.String() && f.State != Held.String() {
			return newFormatError("state", "unknown")
		}
	case FileRefuse:
		if f.Code == "" {
			return newFormatError("code", "empty")
		}
	default:
		return newFormatError("op", "unknown")
	}
	return checkTexts(f.listFields())
}

func checkFileRange(offset, length uint64) error {
	if offset%FileRangeBytes != 0 || length == 0 || length > FileRangeBytes {
		return newFormatError("offset", fmt.Sprintf("%d bytes from %d: expected at most %d, from a multiple of that", length, offset, FileRangeBytes))
	}
	return nil
}
