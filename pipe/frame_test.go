package pipe

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/acpd/acpd/internal/ownwords"
)

func TestReadPreamble(t *testing.T) {
	for in, want := range map[string]int{
		"acp-pipe 1\n": 1, "acp-pipe 1\nrest": 1, "acp-pipe 2\n": 2, "acp-pipe 999\n": 999,
	} {
		r := bufio.NewReader(iotest.OneByteReader(strings.NewReader(in)))
		got, err := readPreamble(r)
		rest, _ := io.ReadAll(r)
		if err != nil || got != want || string(rest) != in[strings.IndexByte(in, '\n')+1:] {
			t.Errorf("%q: %d, %v, rest %q", in, got, err, rest)
		}
	}
	for _, in := range []string{
		"Welcome\n", "acp-pipe\n", "acp-pipe \n", "acp-pipe x\n", "acp-pipe 0\n", "acp-pipe 01\n", "acp-pipe 1 \n", "acp-pipe 1\r\n",
		"acp-pipe -1\n", "acp-pipe 1000\n", "acp-pipe 1", "acp", "\n", "\x00", "ACP-PIPE 1\n",
	} {
		_, err := readPreamble(bufio.NewReader(strings.NewReader(in)))
		if banner, ok := errors.AsType[*bannerError](err); !ok || !strings.HasPrefix(in, string(banner.text)) || len(banner.text) == 0 {
			t.Errorf("%q: %v", in, err)
		}
	}
	if _, err := readPreamble(bufio.NewReader(strings.NewReader(""))); err != io.EOF {
		t.Errorf("nothing: %v", err)
	}
}

func TestReadFrame(t *testing.T) {
	packet := strings.Repeat("p", maxPacket)
	for _, test := range []struct {
		in   string
		want []string // packets
		err  string
	}{
		{"", nil, "EOF"},
		{"\x00\x01a", []string{"a"}, "EOF"},
		{"\x05\xac" + packet + "\x00\x02bc", []string{packet, "bc"}, "EOF"},
		{"\x00", nil, "unexpected EOF"},
		{"\x00\x02b", nil, "unexpected EOF"},
		{"\x00\x02", nil, "unexpected EOF"},
		{"\x00\x01a\x00\x00", []string{"a"}, "sent a packet of 0 bytes"},
		{"\x05\xad" + packet + "p", nil, "sent a packet of 1453 bytes"},
		{"\xff\xff", nil, "sent a packet of 65535 bytes"},
	} {
		r := bufio.NewReader(iotest.OneByteReader(strings.NewReader(test.in)))
		var got []string
		for {
			f, err := readFrame(r)
			if err != nil {
				if !strings.HasPrefix(err.Error(), test.err) {
					t.Errorf("%.20q ends with %v, want %s", test.in, err, test.err)
				}
				break
			}
			got = append(got, string(f.packet()))
			f.recycle()
		}
		if strings.Join(got, "|") != strings.Join(test.want, "|") {
			t.Errorf("%.20q: %.40q", test.in, got)
		}
	}
}

// FuzzFrames reads any bytes, cut anywhere. What is read as frames is what a writer of the same
// packets writes, and nothing beyond it.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("acp-pipe 1\n\x00\x01a\x00\x02bc"), 3)
	f.Add([]byte("acp-pipe 12\n\x00\x00"), 1)
	f.Add([]byte("Last login: today\nacp-pipe 1\n"), 7)
	f.Add([]byte("acp-pipe 1\n\x05\xac"+strings.Repeat("p", maxPacket)+"\x05\xad"), 100)
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		r := bufio.NewReaderSize(&cutReader{in, max(cut%64, 1)}, 16)
		v, err := readPreamble(r)
		if err != nil {
			if banner, ok := errors.AsType[*bannerError](err); ok {
				if !bytes.HasPrefix(in, banner.text) || len(banner.text) > len(preambleWord)+4 {
					t.Fatalf("the banner is %q", banner.text)
				}
			} else if err != io.EOF {
				t.Fatal(err)
			}
			return
		}
		if v < 1 || v > maxVersion {
			t.Fatalf("version %d", v)
		}
		again := appendPreamble(nil, v)
		for {
			f, err := readFrame(r)
			if err == nil {
				again = append(again, newFrame(f.packet()).encoded()...)
				f.recycle()
				continue
			}
			if !bytes.HasPrefix(in, again) || err == io.EOF && len(in) != len(again) {
				t.Fatalf("%q is read as %q, then %v", in, again, err)
			}
			return
		}
	})
}

// cutReader reads n bytes at a time.
type cutReader struct {
	text []byte
	n    int
}

func (r *cutReader) Read(b []byte) (int, error) {
	if len(r.text) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), r.n)], r.text)
	r.text = r.text[n:]
	return n, nil
}

// FuzzWords shows any words of a command.
// holds: security.md#against-strangers
func FuzzWords(f *testing.F) {
	f.Add("ssh: connect to host build-box port 22: Connection refused\r\n")
	f.Add("\x1b[31;1mred\x1b[0m \u202egnorw \"quoted\"\x00\xff")
	f.Add(strings.Repeat("long ", 1000))
	f.Fuzz(func(t *testing.T, text string) {
		var l lastLines
		l.Write([]byte(text))
		if words := l.words(); len(words) > ownwords.MaxQuote+len("…") || strings.ContainsAny(words, "\x1b\n\r\t\u202e\x00") || ownwords.Quote(words) != words {
			t.Fatalf("%q is shown as %q", text, words)
		}
	})
}

// holds: security.md#against-strangers
func TestWords(t *testing.T) {
	for in, want := range map[string]string{
		"ssh: connect to host build-box port 22: Connection refused\r\n":         `ssh: connect to host build-box port 22: Connection refused`,
		"zeroth\nfirst\nsecond\n\n  \n":                                          `first / second`,
		"acpctl: unknown verb \"pip\"; write \"pipe\"\r\nSee: acpctl --help\r\n": `acpctl: unknown verb "pip"; write "pipe" / See: acpctl --help`,
		"start\nprogress 1\rprogress 2\rdone\nbye":                               `done / bye`,
		strings.Repeat("a", 300) + "\nb":                                         `` + strings.Repeat("a", 193) + `… / b`,
		"a\n" + strings.Repeat("b", 185):                                         `` + strings.Repeat("b", 185) + ``,
		"progress 1\rprogress 2":                                                 `progress 2`,
		"\x1b[1;31mred\x1b[0m and \a\"bold\"\n":                                  `red and "bold"`,
		"right \u202e left":                                                      `right left`,
		"bad \xff byte":                                                          "bad \uFFFD byte",
		"":                                                                       "",
		" \n\n":                                                                  "",
	} {
		var l lastLines
		for b := range []byte(in) {
			l.Write([]byte(in)[b : b+1])
		}
		if got := l.words(); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
}
