package doctor

import (
	"slices"
	"strings"
	"testing"
)

// checkForm checks that a finding is one line that says what, and one that says what to do.
func checkForm(t *testing.T, f *Finding) {
	t.Helper()
	row := f.Code.info()
	switch {
	case f.What == "" || f.Subject == "" || f.Severity != row.Severity && f.Fixed == "":
		t.Errorf("a finding without a form: %+v", f)
	case strings.ContainsAny(f.What+f.Remedy, "\n\r"):
		t.Errorf("more than a line: %+v", f)
	case f.Severity != OK && f.Severity != Note && f.Remedy == "":
		t.Errorf("nothing to do is said: %+v", f)
	case f.Severity == OK && f.Remedy != "":
		t.Errorf("something to do about what is well: %+v", f)
	}
}

// TestCodeTableHasForm: each code is there once, and has a meaning.
func TestCodeTableHasForm(t *testing.T) {
	var seen []Code
	for _, c := range ListCodes() {
		if slices.Contains(seen, c.Code) || c.Says == "" {
			t.Errorf("the row of %s", c.Code)
		}
		seen = append(seen, c.Code)
	}
}
