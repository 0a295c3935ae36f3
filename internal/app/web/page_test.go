package web

import (
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// readPage returns the texts of the page's files by their names.
func readPage(t *testing.T) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := fs.WalkDir(pageFiles, "page", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := pageFiles.ReadFile(name)
		files[path.Base(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// readScripts returns the page's scripts by their names.
func readScripts(t *testing.T) map[string]string {
	t.Helper()
	scripts := readPage(t)
	maps.DeleteFunc(scripts, func(name, _ string) bool { return path.Ext(name) != ".js" })
	if scripts["page.js"] == "" {
		t.Fatal("there is no page.js")
	}
	return scripts
}

// TestPageMakesNoHTML: what a peer wrote can become nothing but text, as no script has a way to make
// anything else of it.
// holds: security.md#the-page-of-acpctl-web
func TestPageMakesNoHTML(t *testing.T) {
	for name, script := range readScripts(t) {
		for _, word := range []string{
			"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "DOMParser", "createContextualFragment", "setHTML", "srcdoc",
			"parseFromString", "importScripts", "localStorage", "sessionStorage", "document.cookie", "import(", "javascript:", ".href", ".src",
		} {
			if strings.Contains(script, word) {
				t.Errorf("%s has %s", name, word)
			}
		}
		if found := regexp.MustCompile(`setTimeout\(["'\x60]`).FindString(script); found != "" {
			t.Errorf("%s: a timer with text: %s", name, found)
		}
	}
}

// TestPageIsWhole: the page has all that it names, runs nothing that is not in its scripts, and names no
// other host.
func TestPageIsWhole(t *testing.T) {
	files := readPage(t)
	page := files["index.html"]
	for _, m := range regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		name := m[1]
		if id, ok := strings.CutPrefix(name, "#"); ok {
			if !strings.Contains(page, `id="`+id+`"`) {
				t.Errorf("%s leads nowhere", name)
			}
		} else if files[name] == "" {
			t.Errorf("there is no %s", name)
		}
	}
	if found := regexp.MustCompile(`(?i)\son[a-z]+=|\sstyle=|<style|<script>`).FindString(page); found != "" {
		t.Errorf("index.html has %s", found)
	}
	for name, text := range files {
		if pageTypes[path.Ext(name)] == "" {
			t.Errorf("%s has no type", name)
		}
		for _, url := range regexp.MustCompile(`(?:https?:)?//[a-z0-9.-]+\.[a-z]+[^ "')]*`).FindAllString(text, -1) {
			if !strings.HasPrefix(url, "http://www.w3.org/") { // a name of XML, which nobody asks for
				t.Errorf("%s names %s", name, url)
			}
		}
		if strings.Contains(text, "@import") || strings.Contains(text, "url(") {
			t.Errorf("%s loads something", name)
		}
	}
}

// TestEachPartIsOnThePage: the page says of each part that is read by itself, or with the traffic, why it cannot
// be read, and draws each part.
func TestEachPartIsOnThePage(t *testing.T) {
	page := readPage(t)["index.html"]
	var draws []string
	for _, script := range readScripts(t) {
		for _, m := range regexp.MustCompile(`setDraw\("([a-z]+)"`).FindAllStringSubmatch(script, -1) {
			draws = append(draws, m[1])
		}
	}
	read := slices.Clone(trafficParts)
	for _, p := range polls {
		read = append(read, p.part)
	}
	for _, part := range read {
		if hook := `data-problem="` + part + `"`; !strings.Contains(page, hook) {
			t.Errorf("index.html has no %s, for the problem of %s", hook, part)
		}
	}
	shown := append(read, partWarnings, partRelays, partBindings) // which come with others
	for _, part := range shown {
		if !slices.Contains(draws, part) {
			t.Errorf("no script draws %s", part)
		}
	}
	for _, m := range regexp.MustCompile(`data-(?:problem|more)="([a-z]+)"`).FindAllStringSubmatch(page, -1) {
		if !slices.Contains(shown, m[1]) {
			t.Errorf("index.html has a place for %s, which nobody reads", m[1])
		}
	}
}
