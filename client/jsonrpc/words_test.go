package jsonrpc

import (
	"bufio"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// TestWordsOfTheOtherEndStayOut has the other end answer a call with planted words in each place whose text
// it chooses. What may be shown of the call's error has none of them, unless it is the other end's own
// coded error, which is its words as a whole.
func TestWordsOfTheOtherEndStayOut(t *testing.T) {
	for name, answer := range map[string]string{
		"a result of another type":    `"id":1,"result":{"id":{"PLANTED":1}}`,
		"a result's name twice":       `"id":1,"result":{"PLANTED":1,"PLANTED":2}`,
		"an error's message":          `"id":1,"error":{"code":-32000,"message":"PLANTED"}`,
		"an error of another type":    `"id":1,"error":{"code":{"PLANTED":1}}`,
		"an error's name twice":       `"id":1,"error":{"PLANTED":1,"PLANTED":2}`,
		"an error's data":             `"id":1,"error":{"code":-32602,"message":"PLANTED","data":{"PLANTED":1}}`,
		"an error without an id":      `"id":null,"error":{"code":-32700,"message":"PLANTED"}`,
		"an error without id or code": `"id":null,"error":{"PLANTED":1}`,
	} {
		t.Run(name, func(t *testing.T) {
			near, far := unixPair(t)
			c := NewConn(near, Options{})
			run(t, c)
			go func() {
				bufio.NewReader(far).ReadString('\n')
				io.WriteString(far, `{"jsonrpc":"2.0",`+answer+"}\n")
			}()
			var result struct {
				ID wire.MessageID `json:"id"`
			}
			err := c.CallFor(t.Context(), identity.ID{}, 10*time.Second, "query", nil, &result)
			if err == nil && strings.Contains(answer, `"error"`) {
				t.Fatal("no error")
			}
			for _, text := range []string{ownwords.Of(err), kinds.AsError(err).Error(), kinds.Errorf(kinds.Internal, "agent failed: %v", err).Message} {
				if err != nil && strings.Contains(text, "PLANTED") {
					t.Errorf("%q", text)
				}
			}
		})
	}
}
