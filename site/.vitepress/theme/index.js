// The default theme with the fonts that a reader's system has.
export { default } from "vitepress/theme-without-fonts";
