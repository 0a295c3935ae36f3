package openintent

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The example of docs/channels.md does what it says.
func TestDocumentedExample(t *testing.T) {
	page, err := os.ReadFile("../docs/channels.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(page), "```sh\n")
	example, _, _ = strings.Cut(example, "```")
	command := regexp.MustCompile(`^oi (\w+) (\w+) "?([^ "]+)"?(?: '([^']*)')?(?: +#(.*))?$`)
	known := regexp.MustCompile(`\$(\w+)`)
	h := start(t)
	vars := make(map[string]string)
	typed := 0
	for line := range strings.Lines(example) {
		m := command.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		typed++
		path := "/" + known.ReplaceAllStringFunc(m[3], func(name string) string { return vars[name] })
		if strings.HasPrefix(path, "/subscribe/") {
			h.follow(h.as(m[1]), path).stop()
			continue
		}
		var body any
		if m[4] != "" {
			body = m[4]
		}
		done := make(chan *answer, 1)
		go func() { done <- h.as(m[1]).do(m[2], path, body) }()
		if strings.HasSuffix(path, "/ask") { // somebody has to answer
			list := h.as("reviewer").get(strings.TrimSuffix(path, "/ask") + "/messages?types=request&wait=10&since=" + vars["$request"]).list("id")
			h.as("reviewer").respond(strings.TrimSuffix(path, "/ask"), list[0].(string)).ok(201)
		}
		a := <-done
		if a.status >= 300 {
			t.Errorf("%s: %d %s", line, a.status, a.raw)
		}
		for _, name := range known.FindAllString(m[5], -1) {
			vars[name] = a.id()
		}
	}
	if typed != strings.Count(example, "\noi ") || typed < 8 {
		t.Errorf("%d commands understood of\n%s", typed, example)
	}
}
