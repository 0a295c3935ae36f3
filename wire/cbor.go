package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"

	"github.com/acpd/acpd/identity"
)

// The two modes of RFC 8949 that the protocol uses: core deterministic encoding
// on write, and a reader that refuses what a well-behaved writer never sends.
// Non-minimal integers and unsorted keys pass, since nothing is signed over them.
var (
	encoder = func() cbor.EncMode {
		o := cbor.CoreDetEncOptions()
		o.IndefLength = cbor.IndefLengthForbidden
		o.TagsMd = cbor.TagsForbidden
		o.NilContainers = cbor.NilContainerAsEmpty
		o.BinaryMarshaler = cbor.BinaryMarshalerNone // fixed byte arrays are byte strings as they are
		return must(o.EncMode())
	}()
	decoder = must(cbor.DecOptions{
		DupMapKey:            cbor.DupMapKeyEnforcedAPF,
		IndefLength:          cbor.IndefLengthForbidden,
		TagsMd:               cbor.TagsForbidden,
		MaxNestedLevels:      8,
		MaxArrayElements:     256,
		MaxMapPairs:          maxPairs,
		UTF8:                 cbor.UTF8RejectInvalid,
		FieldNameMatching:    cbor.FieldNameMatchingCaseSensitive,
		FieldNameByteString:  cbor.FieldNameByteStringForbidden,
		MapKeyByteString:     cbor.MapKeyByteStringForbidden,
		ByteStringToString:   cbor.ByteStringToStringForbidden,
		BignumTag:            cbor.BignumTagForbidden,
		NaN:                  cbor.NaNDecodeForbidden,
		Inf:                  cbor.InfDecodeForbidden,
		SimpleValues:         must(cbor.NewSimpleValueRegistryFromDefaults(rejectOtherSimpleValues)),
		DefaultMapType:       reflect.TypeFor[map[string]any](),
		BinaryUnmarshaler:    cbor.BinaryUnmarshalerByteString,
		TextUnmarshaler:      cbor.TextUnmarshalerNone,
		ExtraReturnErrors:    cbor.ExtraDecErrorNone,
		UnrecognizedTagToAny: cbor.UnrecognizedTagContentToAny,
	}.DecMode())
)

// must returns what the CBOR library makes of the options here. It panics if they are wrong.
func must[T any](v T, err error) T {
	if err != nil {
		panic("wire: CBOR options: " + err.Error())
	}
	return v
}

const maxPairs = 64 // of one map

// rejectOtherSimpleValues rejects the other simple values; the library would read the
// unassigned ones as integers.
func rejectOtherSimpleValues(r *cbor.SimpleValueRegistry) error {
	for v := range 256 {
		if 20 <= v && v <= 22 || 24 <= v && v <= 31 {
			continue
		}
		if err := cbor.WithRejectedSimpleValue(cbor.SimpleValue(v))(r); err != nil {
			return err
		}
	}
	return nil
}

// MarshalCBOR encodes v deterministically (RFC 8949, section 4.2.1).
func MarshalCBOR(v any) ([]byte, error) { return encoder.Marshal(v) }

// UnmarshalCBOR decodes exactly one CBOR item into v, which must be fresh. It refuses
// what the package comment says; the error is a [FormatError].
//
// Check the fields afterwards: one that is null or missing stays zero, an array
// of integers passes for bytes, and a Go array takes a byte string of any length;
// so declare byte strings as []byte and check how long they are.
func UnmarshalCBOR(b []byte, v any) error {
	if err := decoder.Unmarshal(b, v); err != nil {
		return newFormatError("", describeCBOR(err))
	}
	return nil
}

// describeCBOR describes what is wrong with CBOR without quoting it: the library quotes a map's key.
func describeCBOR(err error) string {
	_, cutOff := errors.AsType[*cbor.SyntaxError](err)
	_, twice := errors.AsType[*cbor.DupMapKeyError](err)
	_, wrongType := errors.AsType[*cbor.UnmarshalTypeError](err)
	_, tooDeep := errors.AsType[*cbor.MaxNestedLevelError](err)
	_, longArray := errors.AsType[*cbor.MaxArrayElementsError](err)
	_, longMap := errors.AsType[*cbor.MaxMapPairsError](err)
	_, more := errors.AsType[*cbor.ExtraneousDataError](err)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "CBOR: cut off"
	case cutOff:
		return "CBOR: not well-formed"
	case twice:
		return "CBOR: a key stands twice in one map"
	case wrongType:
		return "CBOR: a field has the wrong type"
	case tooDeep:
		return "CBOR: nested too deep"
	case longArray:
		return "CBOR: an array has too many elements"
	case longMap:
		return fmt.Sprintf("CBOR: a map has over %d pairs", maxPairs)
	case more:
		return "CBOR: something follows the item"
	}
	return "CBOR: it has what this protocol does not use, such as a tag, an indefinite length or text that is not UTF-8"
}

// cborValue is well-formed CBOR, without tags and indefinite lengths, that begins with the
// item to read. Envelopes and control items are read from it field by field: the library
// decodes null into a struct's field of any type, and an array of integers into bytes, and
// does not say which field failed.
type cborValue []byte

// The major types (RFC 8949, section 3.1).
const (
	majorUint = iota
	majorNegative
	majorBytes
	majorText
	majorArray
	majorMap
	majorTag
	majorSimple
)

// parseValue checks that b is one well-formed item and nothing else.
func parseValue(b []byte) (cborValue, error) {
	if err := decoder.Wellformed(b); err != nil {
		return nil, newFormatError("", describeCBOR(err))
	}
	return cborValue(b), nil
}

// readHead returns the major type, its argument, and the bytes that both take.
func (v cborValue) readHead() (major byte, arg uint64, n int) {
	major, info := v[0]>>5, v[0]&0x1f
	if info < 24 {
		return major, uint64(info), 1
	}
	n = 1 + 1<<(info-24)
	for _, c := range v[1:n] {
		arg = arg<<8 | uint64(c)
	}
	return major, arg, n
}

// splitFirstItem splits off the first item.
func (v cborValue) splitFirstItem() (first, rest cborValue) {
	n := v.countBytes()
	return v[:n], v[n:]
}

func (v cborValue) countBytes() int {
	major, arg, n := v.readHead()
	switch major {
	case majorBytes, majorText:
		n += int(arg)
	case majorArray:
		for range arg {
			n += v[n:].countBytes()
		}
	case majorMap:
		for range 2 * arg {
			n += v[n:].countBytes()
		}
	}
	return n
}

// expectMajor returns the argument and the content of an item, which must be of a major type.
func (v cborValue) expectMajor(major byte, name string) (arg uint64, content cborValue, err error) {
	got, arg, n := v.readHead()
	if got != major {
		return 0, nil, newFormatError("", "expected "+name+", got "+v.describeType())
	}
	return arg, v[n:], nil
}

func (v cborValue) readUint() (uint64, error) {
	n, _, err := v.expectMajor(majorUint, "an unsigned integer")
	return n, err
}

func (v cborValue) readBool() (bool, error) {
	if v[0] != 0xf4 && v[0] != 0xf5 {
		return false, newFormatError("", "expected true or false, got "+v.describeType())
	}
	return v[0] == 0xf5, nil
}

func (v cborValue) readText() (string, error) {
	n, s, err := v.expectMajor(majorText, "text")
	if err != nil {
		return "", err
	}
	if !utf8.Valid(s[:n]) {
		return "", newFormatError("", "invalid UTF-8")
	}
	return string(s[:n]), nil
}

// readBytes returns the content of a byte string, without a copy.
func (v cborValue) readBytes() ([]byte, error) {
	n, s, err := v.expectMajor(majorBytes, "bytes")
	if err != nil {
		return nil, err
	}
	return s[:n:n], nil
}

// readBytesInto fills dst with a byte string of exactly that length.
func (v cborValue) readBytesInto(dst []byte) error {
	s, err := v.readBytes()
	if err != nil {
		return err
	}
	if len(s) != len(dst) {
		return newFormatError("", fmt.Sprintf("expected %d bytes, got %d", len(dst), len(s)))
	}
	copy(dst, s)
	return nil
}

func (v cborValue) readArray() ([]cborValue, error) {
	n, rest, err := v.expectMajor(majorArray, "an array")
	if err != nil {
		return nil, err
	}
	elems := make([]cborValue, n)
	for i := range elems {
		elems[i], rest = rest.splitFirstItem()
	}
	return elems, nil
}

func (v cborValue) readTexts() ([]string, error) {
	a, err := v.readArray()
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(a))
	for i := range a {
		if texts[i], err = a[i].readText(); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// readFields calls read for each pair of a map. Keys are distinct text, and those
// required are there. An error names prefix and key, unless it names a field.
func (v cborValue) readFields(prefix string, read func(key []byte, v cborValue) error, required ...string) error {
	n, rest, err := v.expectMajor(majorMap, "a map")
	if err != nil {
		return err
	}
	// Where the keys stand: slices of them would take six times as much of the
	// stack, which is that of every stream's goroutine.
	var seen [maxPairs]uint32
	has := func(n int, name []byte) bool {
		for _, at := range seen[:n] {
			if key, _ := v[at:].readKey(); bytes.Equal(key, name) {
				return true
			}
		}
		return false
	}
	var last []byte
	ordered, found := true, 0
	for i := range int(n) {
		at := len(v) - len(rest)
		var k, val cborValue
		k, rest = rest.splitFirstItem()
		val, rest = rest.splitFirstItem()
		key, err := k.readKey()
		if err != nil {
			return err
		}
		if !utf8.Valid(key) {
			return newFormatError("", "a map's key is invalid UTF-8")
		}
		// Keys in the order of the deterministic coding are distinct.
		ordered = ordered && (i == 0 || len(last) < len(key) || len(last) == len(key) && bytes.Compare(last, key) < 0)
		if !ordered && has(i, key) {
			if isFieldName(key) {
				return newFormatError(prefix+string(key), "twice in one map")
			}
			return newFormatError(strings.TrimSuffix(prefix, "."), "a key stands twice in one map")
		}
		seen[i], last = uint32(at), key
		if slices.Contains(required, string(key)) {
			found++
		}
		if err := read(key, val); err != nil {
			return addErrorFieldName(prefix+string(key), err)
		}
	}
	if found == len(required) {
		return nil
	}
	for _, name := range required {
		if !has(int(n), []byte(name)) {
			return newFormatError(prefix+name, "missing")
		}
	}
	return nil
}

func (v cborValue) readKey() ([]byte, error) {
	n, text, err := v.expectMajor(majorText, "text as a map's key")
	if err != nil {
		return nil, err
	}
	return text[:n], nil
}

// describeType names the type of an item, for an error message.
func (v cborValue) describeType() string {
	switch v[0] {
	case 0xf4, 0xf5:
		return "true or false"
	case 0xf6:
		return "null"
	}
	return [...]string{"an unsigned integer", "a negative integer", "bytes", "text", "an array", "a map", "a tag", "a float"}[v[0]>>5]
}

// isFieldName reports whether a foreign key may be quoted in an error: it reads as one word, like all that
// the protocol knows.
func isFieldName(key []byte) bool {
	return len(key) <= identity.MaxName && len(bytes.Trim(key, "abcdefghijklmnopqrstuvwxyz_")) == 0
}
