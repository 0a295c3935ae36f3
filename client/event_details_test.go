package client

import "testing"

func TestDescribeDetails(t *testing.T) {
	for details, want := range map[string]string{
		``: "", `{}`: "", `[]`: "", `"x"`: "", `{"addr"`: "", `{"addr":`: "", `{"addr":"192.0.2.1:7117","detail":"rel`: "192.0.2.1:7117",
		`{"addr":"192.0.2.1:7117","detail":"relay"}`:                                                      "192.0.2.1:7117 · relay",
		`{"project":"demo","agent":"reviewer","file":"a.yaml","sha256":"0","state":"parked","reason":""}`: "demo · reviewer · a.yaml · parked",
		`{"agent":"planner","kind":"query","id":"0192"}`:                                                  "planner · query",
		`{"relay":7,"state":"up\u001b[31m\n","more":[1,{"a":null}]}`:                                      `relay 7 · up  · more [1,{"a":null}]`,
	} {
		if got := (&Event{Details: []byte(details)}).DescribeDetails(); got != want {
			t.Errorf("%s: %q, want %q", details, got, want)
		}
	}
}
