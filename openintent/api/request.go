package api

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/openintent/object"
)

// request is a request on its way through a handler.
type request struct {
	*openintent.Call
	*API
	http     *http.Request
	w        answerWriter
	identify Identify
	route    *route
	args     []string
	body     []byte
	input    any // the decoded body, if it had to be read to find the host
	status   int // of the answer
}

// getPathID returns the first argument of the path, which is an id that the host has made.
func getPathID(r *request) (string, error) { return r.args[0], nil }

// query is the request's query.
type query struct{ url.Values }

func (r *request) parseQuery() query { return query{r.http.URL.Query()} }

// readPage reads limit and offset. Text that is no number is read as -1, which the engine
// refuses.
func (q query) readPage(usual int) object.Page {
	return object.Page{Limit: q.readNumber("limit", usual), Offset: q.readNumber("offset", 0)}
}

// readNumber reads a parameter: usual if there is none, -1 if it is no number.
func (q query) readNumber(name string, usual int) int {
	text := q.Get(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}

// readVersion reads If-Match, whose absence is a bad request.
func (r *request) readVersion() (int64, error) { return r.readIfMatch(http.StatusBadRequest) }

// readIfMatch reads the version that If-Match names, bare or in quotes. missing is the status of
// the refusal if there is none.
func (r *request) readIfMatch(missing int) (int64, error) {
	text := strings.Trim(strings.TrimPrefix(strings.TrimSpace(r.http.Header.Get("If-Match")), "W/"), `"`)
	if text == "" {
		return 0, newStatusError(missing, "no_version", "the header If-Match must name the version that is to be changed")
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, object.NewError("bad_version", "If-Match: the version is a number")
	}
	return v, nil
}
