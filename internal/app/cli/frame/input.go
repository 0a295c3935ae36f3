package frame

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/internal/shellpath"
	"github.com/acpd/acpd/wire"
)

// ReadArgument returns the value of an argument: standard input for "-", a file for
// "@file", both without the line break at their end, or else the argument itself.
func (f *Frame) ReadArgument(ctx context.Context, name, arg string) (string, error) {
	var text, from string
	var err error
	switch path, isFile := strings.CutPrefix(arg, "@"); {
	case arg == "-" && f.inTaken:
		return "", UsageErrorf("%s: only one argument can be standard input", name)
	case arg == "-":
		f.inTaken = true
		from = "standard input"
		text, err = f.ReadStdin(ctx)
	case isFile:
		from = path
		text, err = readArgumentFile(path)
	default:
		text = arg
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if from != "" {
		f.read = append(f.read, fmt.Sprintf("%s: %s has %d bytes", name, from, len(text)))
		text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	}
	if !utf8.ValidString(text) {
		return "", UsageErrorf("%s: not valid UTF-8", name)
	}
	return text, nil
}

// ReadObject does as ReadArgument, and returns an error unless the text is a JSON object.
func (f *Frame) ReadObject(ctx context.Context, name, arg string) (jsontext.Value, error) {
	text, err := f.ReadArgument(ctx, name, arg)
	if err != nil {
		return nil, err
	}
	v, err := ParseJSON(name, text)
	if err == nil && v.Kind() != '{' {
		err = UsageErrorf("%s: expected a JSON object, like {\"branch\": \"main\"}", name)
	}
	return v, err
}

// ParseJSON returns text as one JSON value. The error names the argument, and where in it the
// text stops being JSON.
func ParseJSON(name, text string) (jsontext.Value, error) {
	d := jsontext.NewDecoder(strings.NewReader(text))
	_, err := d.ReadValue()
	at := d.InputOffset()
	if err == nil {
		if _, err = d.ReadToken(); err == io.EOF {
			return jsontext.Value(text), nil
		}
		rest := text[at:]
		at += int64(len(rest) - len(strings.TrimLeft(rest, " \t\r\n")))
		return nil, UsageErrorf("%s: not valid JSON: %s: more text after its end", name, describePosition(text, at))
	}
	wrong, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case !ok, errors.Is(err, io.ErrUnexpectedEOF):
		return nil, UsageErrorf("%s: not valid JSON: %s: it ends too early", name, describePosition(text, int64(len(text))))
	case errors.Is(err, jsontext.ErrDuplicateName):
		return nil, UsageErrorf("%s: the name %q is used twice", name, wrong.JSONPointer.LastToken())
	}
	return nil, UsageErrorf("%s: not valid JSON: %s: %v", name, describePosition(text, wrong.ByteOffset), wrong.Err)
}

// describePosition returns the line and column of a byte, as editors count them: from 1, in
// characters.
func describePosition(text string, at int64) string {
	before := text[:min(int(at), len(text))]
	line := strings.Count(before, "\n") + 1
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	return fmt.Sprintf("line %d, column %d", line, column)
}

func readArgumentFile(path string) (string, error) {
	path, err := shellpath.ExpandTilde(path)
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("%w: a text that begins with @ can be given on standard input, as -", err)
	}
	defer f.Close()
	text, err := readBoundedText(f)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return text, err
}

// readBoundedText reads as much as a message can hold, and returns an error if there is more.
func readBoundedText(r io.Reader) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r, wire.MaxMaxMessage+1))
	if err == nil && len(b) > wire.MaxMaxMessage {
		err = fmt.Errorf("over %d MiB, more than any message can hold", wire.MaxMaxMessage>>20)
	}
	return string(b), err
}

// ReadFile reads a file, or standard input for "-", and no more than most bytes of it. It ends
// with ctx.
func (f *Frame) ReadFile(ctx context.Context, path string, most int64) ([]byte, error) {
	text, err := ReadUntilCancelled(ctx, func() (string, error) {
		from := f.In
		if path != "-" {
			file, err := os.Open(path)
			if err != nil {
				return "", err
			}
			defer file.Close()
			from = file
		}
		b, err := io.ReadAll(io.LimitReader(from, most))
		return string(b), err
	})
	return []byte(text), err
}

// ReadStdin reads standard input until its end or an interrupt. An interrupt leaves a
// goroutine blocked in a read that nothing can end; it is the process's last.
func (f *Frame) ReadStdin(ctx context.Context) (string, error) {
	return ReadUntilCancelled(ctx, func() (string, error) { return readBoundedText(f.In) })
}

// ReadUntilCancelled returns what read returns, or the error of ctx if that ends first.
func ReadUntilCancelled(ctx context.Context, read func() (string, error)) (string, error) {
	type answer struct {
		text string
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		text, err := read()
		done <- answer{text, err}
	}()
	select {
	case got := <-done:
		return got.text, got.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Confirm asks a question on standard error, and reports whether the answer is yes. It asks once more after an answer
// that is neither yes nor no, and then takes it for no.
func (f *Frame) Confirm(ctx context.Context, question string) (bool, error) {
	for try := 0; try < 2 && (try == 0 || !f.inputEnded); try++ {
		answer, err := f.ask(ctx, question+" ", "yes", "no")
		if answer != "" || err != nil {
			return answer == "yes", err
		}
		question = "That is no answer."
	}
	fmt.Fprintln(f.Err, "That was taken for no.")
	return false, nil
}

// Choose asks a question on standard error until one of these words is the answer. It returns "" if the input has
// ended.
func (f *Frame) Choose(ctx context.Context, question string, words ...string) (answer string, err error) {
	for answer == "" && err == nil && !f.inputEnded {
		answer, err = f.ask(ctx, question+"\n", words...)
		question = "That is no answer."
	}
	return answer, err
}

// ask asks a question once. It returns the word of words that was typed, or its first letter, or "". Text that
// was typed before the question is ignored. No line ends within the words.
func (f *Frame) ask(ctx context.Context, question string, words ...string) (string, error) {
	if err := f.awaitSilence(ctx); err != nil {
		return "", err
	}
	last := len(words) - 1
	prompt := "Type " + strings.Join(words[:last], ", ") + " or " + words[last] + ":"
	const unbroken = "\u00a0"
	question = f.WrapTalk(strings.TrimLeft(question, " ") + strings.ReplaceAll(prompt, " ", unbroken))
	fmt.Fprint(f.Err, strings.ReplaceAll(question, unbroken, " ")+" ")
	line, err := f.ReadLine(ctx)
	if err != nil {
		return "", err
	}
	if !f.InTTY || f.inputEnded {
		fmt.Fprintln(f.Err) // the answer's own end of line is not seen
	}
	for _, word := range words {
		if line = strings.ToLower(line); line == word || line == word[:1] {
			return word, nil
		}
	}
	return "", nil
}

// silence is how long nobody must have typed before a question.
const silence = 300 * time.Millisecond

// awaitSilence discards what is typed until nothing comes any more: the rest of a pasted text does not answer.
func (f *Frame) awaitSilence(ctx context.Context) error {
	for f.DiscardTyped() && !f.inputEnded {
		bounded, cancel := context.WithTimeout(ctx, silence)
		_, err := f.ReadLine(bounded)
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, context.DeadlineExceeded):
			f.DiscardTyped() // a line without its end
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

// SkipEmptyLines discards the empty lines that are typed ahead at a terminal, until nothing comes any more or a line
// that is not empty, which it returns. A line that has only begun is left to the next read.
func (f *Frame) SkipEmptyLines(ctx context.Context) (line string, err error) {
	for _, isFile := f.In.(*os.File); isFile && f.InTTY && line == "" && err == nil && !f.inputEnded; {
		bounded, cancel := context.WithTimeout(ctx, silence)
		line, err = f.ReadLine(bounded)
		cancel()
	}
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return line, err
}

// lineRead is what a read of a line has given.
type lineRead struct {
	text  string
	ended bool // nothing follows
	err   error
}

// ReadLine reads a line of standard input byte by byte, and leaves what follows there. If ctx ends before
// the line has come, the next call gets it.
func (f *Frame) ReadLine(ctx context.Context) (string, error) {
	if f.reading == nil {
		reading := make(chan lineRead, 1)
		go func() { reading <- readLine(f.In) }()
		f.reading = reading
	}
	select {
	case got := <-f.reading:
		f.reading, f.inputEnded = nil, got.ended
		return got.text, got.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// InputEnded reports whether the last ReadLine has come to the end of standard input.
func (f *Frame) InputEnded() bool { return f.inputEnded }

func readLine(r io.Reader) lineRead {
	const longest = 4 << 10 // an invitation's limit too
	var line []byte
	for b := [1]byte{}; len(line) <= longest; {
		n, err := r.Read(b[:])
		if n == 1 && b[0] != '\n' {
			line = append(line, b[0])
		}
		if n == 1 && b[0] == '\n' || err == io.EOF {
			return lineRead{text: strings.TrimSpace(string(line)), ended: err == io.EOF}
		}
		if err != nil {
			return lineRead{err: err}
		}
	}
	return lineRead{err: fmt.Errorf("a line of over %d bytes", longest)}
}
