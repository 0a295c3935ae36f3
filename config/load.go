package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/yamldoc"
)

// maxFile bounds a configuration file, in bytes.
const maxFile = 1 << 20

// LoadConfig reads the file at path, or returns the defaults if it does not exist.
// It returns the first 20 mistakes in the file as one error that joins an [*Error]
// for each.
func LoadConfig(path string) (*Config, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return parseFile(path, nil)
	}
	if err != nil {
		return nil, ownwords.Errorf("config: %w", err)
	}
	defer f.Close()
	return ReadConfig(path, f)
}

// ReadConfig does what [LoadConfig] does, with what it reads from r. file names that in errors.
func ReadConfig(file string, r io.Reader) (*Config, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1)) // of a longer file the first byte too many
	if err != nil {
		return nil, ownwords.Errorf("config: %w", err)
	}
	return parseFile(file, data)
}

// parser checks the values of a configuration file that was decoded.
type parser struct{ *yamldoc.Document }

// textExamples are the remedies for settings whose text needs more than quotes to be valid.
var textExamples = map[string]string{
	"listen":          "write host:port, like 0.0.0.0:7117",
	"channels.listen": "write host:port, like 127.0.0.1:7118",
}

// goneSettings are the remedies for settings that only the minor version before this one had. They are skipped, so
// that an upgrade does not keep acpd from starting. Only a history of no messages is still off, and US dollars are
// still the limit of spending. The next minor version refuses them: remove them from here.
var goneSettings = map[string]string{
	"agents.*.turns.day": "remove it: in 24 hours there are five times as many turns as turns.hour",

	"channels.held_list":    "remove it: a list without a query waits up to 1 s for the answer to an open request",
	"channels.request_ttl":  "remove it: a request without expires_at expires after 10 minutes",
	"channels.retention":    "remove it: a closed channel stays readable for 24 hours",
	"channels.max_payload":  "remove it: a payload has at most 262144 bytes (256 KiB)",
	"channels.quiet_agents": "remove it: the event stream of an agent has its messages",

	"metrics.peers": "remove it: acpctl peers shows single peers",
	"log.format":    "remove it: the log has lines of text, key=value",

	"spending": "write spending: 5, the US dollars that runs for one peer may cost on one day, or another number",

	"history": "remove it to keep the last 1000 messages, at most 4 MiB of them, or write history: off to keep none",
}

// parseFile does what LoadConfig does, with the content of the file.
func parseFile(file string, data []byte) (*Config, error) {
	if len(data) > maxFile {
		line := 1 + bytes.Count(data[:maxFile], []byte{'\n'})
		return nil, errors.Join(&Error{File: file, Line: line, Problem: "the file is over 1 MiB", Remedy: "shorten it"})
	}
	var c Config
	p := parser{yamldoc.Decode(data, &c, yamldoc.Options{File: file, Examples: textExamples, Gone: goneSettings})}
	p.checkValues(&c)
	if errs := p.ListErrors(); len(errs) > 0 {
		return nil, joinErrors(errs)
	}
	c.setDefaults()
	c.Lines = p.ListLines()
	for _, s := range p.ListSkipped() {
		old := p.ReadSkipped(s.Key)
		messages, hasMessages := old["messages"]
		usd, hasUSD := old["usd"]
		switch {
		case s.Key == "history" && hasMessages && messages == 0:
			c.History = Off
			s.Problem, s.Remedy = strings.Replace(s.Problem, "is skipped", "keeps none", 1), "write history: off"
		case s.Key == "spending" && hasUSD:
			c.Spending = min(max(usd, minSpending), maxSpending)
			s.Problem, s.Remedy = strings.Replace(s.Problem, "is skipped", "is read as US dollars", 1), fmt.Sprintf("write spending: %v", c.Spending)
		}
		c.Skipped = append(c.Skipped, s.Error())
	}
	return &c, nil
}
