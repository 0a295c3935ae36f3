// Package web tests the page of acpctl web in a real browser, Chromium. The tests need the tag web
// (make web).
package web
